#pragma once

#include "partita/config/run_config.hpp"
#include "partita/plan/parts/flow.hpp"

namespace partita {

/// The layers that one part of a stage computes, one after another, the exchanges between them, and how their
/// last output is divided.
class PartChain {
 public:
  PartChain(int parts, int part, Flow in) : _parts(parts), _part(part), _flow(std::move(in)) {}

  const Flow& flow() const { return _flow; }
  Shape own() const { return _flow.own(_part); }
  /// Room for this many layers, with their exchanges.
  void reserve(std::size_t layers);
  std::vector<LayerPlan> take() { return std::move(_layers); }

  /// Every part computes the whole layer from the whole activation; the first part writes its tensors.
  void addWhole(const LayerPlan& layer);
  /// Every part computes its channels or places of the output from the same ones of the input.
  void addInside(const LayerPlan& layer);
  /// Adds `own`, which computes this part's share of `layer` and leaves the activation as `out`. If the
  /// outputs are partial sums, the activation function follows later.
  void addDivided(const LayerPlan& layer, LayerPlan own, LayerPart has, Flow out);
  /// The same if the outputs of all parts have to be added up. Each part keeps the sums that `wanted` gives
  /// it: the whole activation or some positions.
  void addSums(const LayerPlan& layer, LayerPlan own, LayerPart has, const Flow& wanted);
  /// The same if this part computes its block of the places of `out`, and the `interior` of the block first.
  void addPlaces(const LayerPlan& layer, LayerPlan own, Flow out, const Block& interior = {});
  /// A group whose inner layers have been divided. Its `whole` has the extents, but no layers.
  void addGroup(LayerPlan group, Flow out);
  /// The activation function of `layer` as a layer of its own.
  void addActivation(const LayerPlan& layer);

  /// Exchanges, before or after `layer`, that change how the activation is divided.
  void toWhole(const LayerPlan& layer);
  void divideAs(const LayerPlan& layer, const Flow& wanted);
  /// Gives every part the whole activation, so that each then computes a partial gradient of it. Returns
  /// whether these must be added up: not if the activation was gathered, because the reverse of the gather
  /// does so.
  bool shareWhole(const LayerPlan& layer);
  /// `in` and `out`: this part's extents before and after the exchange.
  void addExchange(const LayerPlan& layer, ExchangePlan plan, Shape in, Shape out);

 private:
  PartRing all() const { return {0, 1, _parts}; }
  std::vector<std::int64_t> widthsOf(const Flow& flow) const;

  int _parts, _part;
  Flow _flow;
  std::vector<LayerPlan> _layers;
};

/// An undivided layer, as every part has it.
LayerPlan wholeOnPart(LayerPlan layer, int parts, int part);

} // namespace partita
