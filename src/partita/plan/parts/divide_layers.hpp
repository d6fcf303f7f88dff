#pragma once

#include "partita/plan/parts/part_chain.hpp"
#include "partita/plan/window_plan.hpp"

namespace partita {

/// Divides layers among the parts of a stage as `strategy/split` says; see `partOfStage`.
class LayerDivider {
 public:
  /// `network_begins`: do the layers begin with the first layer of the network?
  LayerDivider(const StrategySection& strategy, int part, bool network_begins);

  /// What this part has of consecutive layers whose input lies as `in`. The output lies as `flow` of the
  /// result; `ends` if it is the output of the network, which is whole.
  PartChain divide(const std::vector<LayerPlan>& layers, const Flow& in, bool ends);
  /// How parts have an activation between stages and at the ends of residual layers.
  Flow between(const Shape& shape) const;

 private:
  void add(PartChain& chain, const std::vector<LayerPlan>& layers, std::size_t index, bool ends);
  void addWeights(PartChain& chain, const LayerPlan& layer, bool channels_wanted);
  void addByOutputs(PartChain& chain, const LayerPlan& layer, bool gathers);
  void addByInputs(PartChain& chain, const LayerPlan& layer);
  void addByBoth(PartChain& chain, const LayerPlan& layer);
  void addByPlaces(PartChain& chain, const LayerPlan& layer);
  void addWindows(PartChain& chain, const LayerPlan& layer, const WindowPlan& windows);
  void addBlock(PartChain& chain, const LayerPlan& layer);
  void addResidual(PartChain& chain, const LayerPlan& layer);
  bool channelsAfter(const std::vector<LayerPlan>& layers, std::size_t index, bool ends) const;
  bool grid() const { return _split == Split::grid; }

  Split _split;
  int _parts, _part;
  bool _first; ///< has no layer with weights been divided so far?
};

} // namespace partita
