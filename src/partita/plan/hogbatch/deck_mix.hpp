#pragma once

#include "partita/config/run_config.hpp"
#include "partita/plan/cost/cluster.hpp"
#include "partita/plan/hogbatch/worker_mix.hpp"

#include <utility>

namespace partita {

/// The rules of strategy/kind 'hogbatch' for the controller.
BatchRules batchRules(const RunConfig& config);
/// The groups whose batches the controller balances: all shared workers together, and each replica worker;
/// with `synchronous`, each worker. Workers 0, 1, ... are ranks 1, 2, ...
std::vector<WorkerGroup> workerGroups(const RunConfig& config, std::int64_t workers);
/// The group of a worker.
std::size_t workerGroup(const HogbatchSection& section, std::size_t worker);
/// `synchronous`: the speeds of all workers in `strategy/speeds`; empty if they are to be measured.
std::vector<double> givenSpeeds(const HogbatchSection& section, std::size_t workers);

/// Two batch sizes whose times give the overhead and the speed of a worker: the smallest and the largest, or
/// the size and four times the size if batches do not change.
std::pair<std::int64_t, std::int64_t> timedBatches(const RunConfig& config);

/// What is known about the network of a deck besides the workers.
struct MixTask {
  std::string deck;                ///< name without folder and suffix; "": unknown
  std::int64_t parameters = 0;     ///< of the network
  std::int64_t examples = 1;       ///< of an epoch
  double seconds_per_example = 0.; ///< of a worker without a row in the cluster
  double model_bytes = 0.0;        ///< of a vector with all values of the model
  double seconds_per_update = 0.0; ///< of the whole model
};

/// The workers of a run on this many ranks, with their speeds in the cluster and `strategy/slowdown`. The
/// overhead includes the update, a message to the worker and one back, and the vectors that a worker beyond
/// the node of rank 0 gets and sends.
WorkerMix workerMix(const RunConfig& config, std::int64_t ranks, const MixTask& task, const Cluster& cluster);
/// The same workers in groups for an asynchronous rule, with the bounds of the deck, widened to its first
/// batches: `fixed` and `synchronous` use no bounds, so theirs need not fit. No batch is larger than the
/// epoch, because a run refuses that, unless the deck has it.
WorkerMix mixWithinBounds(RunConfig config, std::int64_t ranks, const MixTask& task, const Cluster& cluster);
/// Does the cluster have a row for each worker?
bool knowsWorkers(std::int64_t ranks, const MixTask& task, const Cluster& cluster);

} // namespace partita
