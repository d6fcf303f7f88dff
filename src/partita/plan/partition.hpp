#pragma once

#include "partita/plan/stage_plan.hpp"

#include <limits>

namespace partita {

/// The network of a deck cut into stages.
struct Partition {
  std::vector<StagePlan> stages;
  std::vector<std::int64_t> cuts; ///< index of the first layer of each stage but the first
  /// Per sample and stage: the effort of training it, with the local loss and the synthetic input of sil.
  std::vector<Effort> local;
  Effort joint; ///< per sample: conventional training of the whole network

  /// The speed-up that the cut allows if all stages train at once: the effort of conventional training over
  /// that of the slowest stage.
  double allowedSpeedup() const;
};

/// Cuts the layers as `strategy/cuts` says; the strategy `joint` has one stage. Throws UserError if the cuts
/// or labels do not fit the network. `real_bytes` is the size of a value, for cuts by memory. These avoid
/// stages that need more than `most_bytes`: if all cuts have one, it throws UserError or returns such cuts,
/// so the caller checks the result. A network whose output is a sequence has one label per position.
Partition planPartition(const RunConfig& config, const std::vector<LayerPlan>& layers, std::int64_t classes,
                        std::int64_t real_bytes = sizeof(float),
                        double most_bytes = std::numeric_limits<double>::infinity());

/// The deck with its cuts as a list: a trained network keeps its cuts even if other parts of the deck change.
RunConfig withFixedCuts(RunConfig config, const Shape& input, std::int64_t classes, std::int64_t real_bytes);

} // namespace partita
