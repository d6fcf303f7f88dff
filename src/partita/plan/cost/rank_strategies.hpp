#pragma once

#include "partita/plan/cost/cost_model.hpp"

namespace partita {

/// All ways in which `train` can run a task on this many ranks: every grid of stages x replicas x parts,
/// every split of layers among parts, and pipelines of every schedule (with parts, 1f1b and 1f1b-eager).
/// Pipelines have the task's number of microbatches, or otherwise S, 2 S, 4 S or 8 S for S stages. `local`:
/// also stages with their own labels and replicas that meet every few steps, which may change the accuracy.
/// The fastest come first, those that cannot run last.
std::vector<Prediction> rankStrategies(const CostTask& task, const Cluster& cluster, std::int64_t ranks,
                                       bool local);

} // namespace partita
