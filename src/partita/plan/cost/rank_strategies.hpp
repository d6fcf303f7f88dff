#pragma once

#include "partita/plan/cost/cost_model.hpp"

namespace partita {

/// All ways in which `train` can run a task on so many ranks: every grid of stages x replicas x parts, with
/// every split of layers among parts, and pipelines of every schedule with as many microbatches as the task
/// has, or S, 2 S, 4 S or 8 S for S stages. `local`: also stages with labels of their own and replicas that
/// meet at intervals, which may change the accuracy. The fastest first; those that cannot run come last.
std::vector<Prediction> rankStrategies(const CostTask& task, const Cluster& cluster, std::int64_t ranks,
                                       bool local);

} // namespace partita
