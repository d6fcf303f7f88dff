#pragma once

#include "partita/plan/layer_plan.hpp"

#include <functional>

namespace partita {

/// A stage: consecutive layers that one rank trains.
struct StagePlan {
  int index = 0, stages = 1;
  std::vector<LayerPlan>
      layers; ///< begins with an `activation` layer where the cut in front is matched before it

  bool entrance = false;      ///< does it begin so?
  std::int64_t positions = 1; ///< labels a sample: one, or one each position of a sequence of tokens

  bool first() const { return index == 0; }
  bool last() const { return index + 1 == stages; }
  std::int64_t inputs() const { return layers.front().inputs(); }
  std::int64_t outputs() const { return layers.back().outputs(); }
  std::int64_t labelWidth() const { return outputs() / positions; } ///< of the cut behind it
  std::int64_t parameters() const { return countParameters(layers); }
  std::int64_t statistics() const;              ///< values of state that no gradient reaches
  double forwardFlops() const;                  ///< a sample
  double trainFlops(bool input_gradient) const; ///< a sample; does a gradient leave the stage at its front?
  std::int64_t activationValues() const;        ///< a sample: input and all that backward needs
  std::int64_t widest() const; ///< activation between two layers, or of the last, values a sample
  std::int64_t workValues(std::int64_t rows) const; ///< scratch of the layer that needs most
  std::int64_t mostParameters() const;              ///< of a layer that has no others inside
};

/// Bytes of one stage on its rank; statistics count as parameters.
struct StageMemory {
  std::int64_t parameters = 0, gradients = 0, optimiser = 0, activations = 0;
  std::int64_t offloaded = 0; ///< state that is not on the device; then `optimiser` is what it passes through
  std::int64_t total() const { return parameters + gradients + optimiser + activations; }
};

/// The network of a deck cut into stages.
struct Partition {
  std::vector<StagePlan> stages;
  std::vector<std::int64_t> cuts; ///< index of the first layer of each stage but the first
  std::vector<double>
      local_flops; ///< a sample and stage: training it, with the local loss and synthetic input of sil
  double joint_flops = 0.0; ///< a sample: conventional training of the whole network

  /// What the cut allows: time of conventional training over that of the slowest stage, counted in FLOPs.
  double allowedSpeedup() const;
};

/// Do the stages learn by labels of their own? Else gradients cross the cuts, and no activation is moved.
inline bool usesLabels(const StrategySection& strategy) {
  return strategy.kind == StrategyKind::sil;
}

/// Cuts the layers as `strategy/cuts` says; one stage for the strategy `joint`.
/// Throws UserError where the cuts or labels do not fit the network.
/// `real_bytes` is the size of a value, for cuts by memory.
/// A network whose output is a sequence has a label for each of its positions.
Partition planPartition(const RunConfig& config, const std::vector<LayerPlan>& layers, std::int64_t classes,
                        std::int64_t real_bytes = sizeof(float));

/// What a stage keeps at once.
struct StageLoad {
  std::int64_t rows = 0;     ///< of a pass
  std::int64_t live = 1;     ///< passes between forward and backward
  std::int64_t messages = 0; ///< values in buffers of messages besides, a row of a pass
};

/// Memory of a stage for values of `real_bytes`.
StageMemory stageMemory(const StagePlan& stage, const RunConfig& config, const StageLoad& load,
                        std::int64_t real_bytes);

/// Does the stage in front of a cut meet its labels before the activation at its end, which then opens the
/// next stage? Signed labels cannot be reached through a ReLU, so they do; except that a first stage of one
/// layer keeps its activation where the loss is a cross-entropy, or it would be a linear model.
/// `weight_layers`: layers with weights in front of the cut.
bool matchedBefore(const StrategySection& strategy, std::int64_t weight_layers);

/// `free`: are the inputs of later stages mixtures of labels, or single labels with noise?
bool mixesLabels(const StrategySection& strategy);

/// Exact balanced contiguous partition: the `parts - 1` cuts of 0..n that make the largest cost(first, last,
/// part) smallest; among those the one with the smallest sum of squares. Two dynamic programmes, O(n^2
/// parts).
std::vector<std::int64_t> balancedCuts(std::int64_t n, int parts,
                                       const std::function<double(std::int64_t, std::int64_t, int)>& cost);

/// The grid of a run: stage groups x replicas, group index fastest, so that neighbouring stages are
/// neighbouring ranks.
struct GridPlan {
  int ranks = 1, stages = 1, replicas = 1, groups = 1;
  std::vector<int> first_stage; ///< of each group, and the number of stages at the end: groups + 1 values

  int group(int rank) const { return rank % groups; }
  int replica(int rank) const { return rank / groups; }
  int groupOf(int stage) const;
};

/// ranks = stages x replicas, or fewer: consecutive stages are then dealt to the ranks, balanced by FLOPs.
/// Throws UserError where the number of ranks does not fit.
GridPlan planGrid(const StrategySection& strategy, const Partition& partition, int ranks);

/// What stage `stage` keeps on its rank of the grid while it trains.
StageLoad stageLoad(const RunConfig& config, const Partition& partition, const GridPlan& grid, int stage);

} // namespace partita
