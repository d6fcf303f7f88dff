#pragma once

#include "partita/config/run_config.hpp"
#include "partita/plan/parts/flow.hpp"

namespace partita {

/// The layers that one part of a stage computes, one after another, with the exchanges between them, and how
/// their last output lies on the parts.
class PartChain {
 public:
  PartChain(int parts, int part, Flow in) : _parts(parts), _part(part), _flow(std::move(in)) {}

  const Flow& flow() const { return _flow; }
  Shape own() const { return _flow.own(_part); }
  std::vector<LayerPlan> take() { return std::move(_layers); }

  /// Every part computes the whole layer from the whole activation; the first one writes its tensors.
  void addWhole(const LayerPlan& layer);
  /// Every part computes its own channels or places of the output from the same ones of the input.
  void addInside(const LayerPlan& layer);
  /// `own`, which computes this part's share of `layer` and leaves the activation as `out`. If the outputs
  /// are not complete, the activation function follows later.
  void addDivided(const LayerPlan& layer, LayerPlan own, LayerPart has, Flow out);
  /// The same if the outputs of all parts have to be added up: each part keeps of the sums what `wanted`, the
  /// whole activation or some positions, leaves it.
  void addSums(const LayerPlan& layer, LayerPlan own, LayerPart has, const Flow& wanted);
  /// The same if this part computes its block of the places of `out`, and of that first the `interior`.
  void addPlaces(const LayerPlan& layer, LayerPlan own, Flow out, const Block& interior = {});
  /// A group whose layers inside have been divided. Its whole has the extents, but no layers.
  void addGroup(LayerPlan group, Flow out);
  /// The activation function of `layer` as a layer of its own.
  void addActivation(const LayerPlan& layer);

  /// Exchanges, before or after `layer`, that change how the activation is divided.
  void toWhole(const LayerPlan& layer);
  void divideAs(const LayerPlan& layer, const Flow& wanted);
  /// Every part gets the whole activation, of whose gradient it then computes a part. Returns whether these
  /// parts remain to be added up: not if that is the reverse of a gathering.
  bool shareWhole(const LayerPlan& layer);
  /// From what this part has, `in`, to `out`.
  void addExchange(const LayerPlan& layer, ExchangePlan plan, Shape in, Shape out);

 private:
  PartRing all() const { return {0, 1, _parts}; }
  std::vector<std::int64_t> widthsOf(const Flow& flow) const;

  int _parts, _part;
  Flow _flow;
  std::vector<LayerPlan> _layers;
};

/// The layer as every part has it if it is not divided.
LayerPlan wholeOnPart(LayerPlan layer, int parts, int part);

} // namespace partita
