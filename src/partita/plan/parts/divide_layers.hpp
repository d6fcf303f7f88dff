#pragma once

#include "partita/plan/parts/part_chain.hpp"
#include "partita/plan/stage_plan.hpp"
#include "partita/plan/window_plan.hpp"

namespace partita {

/// What a division of places does to a layer and the layers inside it, per sample.
struct PlaceCost {
  std::int64_t outputs = 0; ///< values that parts compute their own places of
  std::int64_t halo = 0;    ///< values that they get from others for this

  PlaceCost& operator+=(const PlaceCost& other) {
    outputs += other.outputs;
    halo += other.halo;
    return *this;
  }
};
PlaceCost placeCost(const LayerPlan& layer, const PlaceGrid& grid);

/// Divides layers among the parts of a stage as `strategy/split` says; see `partOfStage`.
class LayerDivider {
 public:
  /// For layers of `stage`, and of its head.
  LayerDivider(const StrategySection& strategy, const StagePlan& stage, int part);

  /// The part has only some of the classes of the network's last layer, if that can be; see `ClassParts`.
  void divideClasses() { _divides_classes = true; }
  /// What this part has of consecutive layers whose input lies as `in`. The output lies as `flow` of the
  /// result; `ends` if it is the output of the network, which is whole.
  PartChain divide(const std::vector<LayerPlan>& layers, const Flow& in, bool ends);
  /// How parts have an activation between stages and at the ends of residual layers.
  Flow between(const Shape& shape) const;

 private:
  void add(PartChain& chain, const std::vector<LayerPlan>& layers, std::size_t index, bool ends);
  void addWeights(PartChain& chain, const LayerPlan& layer, bool channels_wanted);
  void addByOutputs(PartChain& chain, const LayerPlan& layer, bool gathers);
  void addByInputs(PartChain& chain, const LayerPlan& layer, const Flow& wanted);
  void addByBoth(PartChain& chain, const LayerPlan& layer);
  void addBlock(PartChain& chain, const LayerPlan& layer);
  void addResidual(PartChain& chain, const LayerPlan& layer);
  // divide_places.cpp
  void addByPlaces(PartChain& chain, const LayerPlan& layer);
  void addWindows(PartChain& chain, const LayerPlan& layer, const WindowPlan& windows);
  // divide_sequence.cpp
  void addInSequence(PartChain& chain, const std::vector<LayerPlan>& layers, std::size_t index, bool ends);
  void addVocabulary(PartChain& chain, const LayerPlan& layer);
  void addHeads(PartChain& chain, const LayerPlan& layer);
  bool channelsAfter(const std::vector<LayerPlan>& layers, std::size_t index, bool ends) const;
  bool grid() const { return _split == Split::grid; }

  Split _split;
  bool _by_places;
  std::vector<std::int64_t> _chosen; ///< `strategy/parts_grid`
  PlaceGrid _grid;
  int _parts, _part;
  bool _divides_classes = false;
  bool _first; ///< has no layer with weights been divided so far?
};

} // namespace partita
