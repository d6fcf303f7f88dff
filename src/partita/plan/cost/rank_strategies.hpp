#pragma once

#include "partita/plan/cost/cost_model.hpp"

namespace partita {

/// All ways in which `train` can run a task on so many ranks: whole networks, pipelines of every schedule and
/// of every number of stages that divides the ranks, with as many microbatches as the task has, or S, 2 S,
/// 4 S or 8 S for S stages. `local`: also stages with labels of their own and replicas that meet at
/// intervals, which may change the accuracy. The fastest first; those that cannot run come last.
std::vector<Prediction> rankStrategies(const CostTask& task, const Cluster& cluster, std::int64_t ranks,
                                       bool local);

} // namespace partita
