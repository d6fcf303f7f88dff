#pragma once

#include "partita/plan/parts/part_chain.hpp"
#include "partita/plan/stage_plan.hpp"
#include "partita/plan/window_plan.hpp"

namespace partita {

/// The cost of dividing the places of a layer and of the layers inside it, per sample.
struct PlaceCost {
  std::int64_t outputs = 0; ///< values of the outputs that are divided
  std::int64_t halo = 0;    ///< values that parts get from others for this

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

  /// Divides the classes of the network's last layer among the parts if possible; see `ClassParts`.
  void divideClasses() { _divides_classes = true; }
  /// This part's share of consecutive layers with an input divided as `in`. The `flow` of the result is the
  /// output. `ends`: the output is that of the network, which is whole.
  PartChain divide(const std::vector<LayerPlan>& layers, const Flow& in, bool ends);
  /// How an activation between stages, or at the ends of a residual layer, is divided.
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
  bool _first; ///< no layer with weights has been divided yet
};

} // namespace partita
