#pragma once

#include "partita/plan/stage_plan.hpp"

namespace partita {

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

/// Cuts the layers as `strategy/cuts` says; one stage for the strategy `joint`.
/// Throws UserError where the cuts or labels do not fit the network.
/// `real_bytes` is the size of a value, for cuts by memory.
/// A network whose output is a sequence has a label for each of its positions.
Partition planPartition(const RunConfig& config, const std::vector<LayerPlan>& layers, std::int64_t classes,
                        std::int64_t real_bytes = sizeof(float));

/// The deck with its cuts as a list: a network that was trained keeps them, whatever else of the deck
/// changes.
RunConfig withFixedCuts(RunConfig config, const Shape& input, std::int64_t classes, std::int64_t real_bytes);

} // namespace partita
