#pragma once

#include "partita/config/run_config.hpp"
#include "partita/plan/cost/cluster.hpp"
#include "partita/plan/hogbatch/worker_mix.hpp"

#include <utility>

namespace partita {

/// The rules of strategy/kind 'hogbatch', as the controller takes them.
BatchRules batchRules(const RunConfig& config);
/// The groups whose batches the controller balances: all shared workers together, and each replica worker; in
/// steps that all take together, each worker. Workers 0, 1, ... are ranks 1, 2, ...
std::vector<WorkerGroup> workerGroups(const RunConfig& config, std::int64_t workers);
/// The group of a worker.
std::size_t workerGroup(const HogbatchSection& section, std::size_t worker);

/// Two sizes of batches whose times tell the overhead and the speed of a worker: the smallest and the
/// largest, or one and four times as many if batches do not change.
std::pair<std::int64_t, std::int64_t> timedBatches(const RunConfig& config);
/// Overhead and speed by the seconds of a smaller and a larger batch; without overhead if these are not such
/// that a fixed part and one per sample explain them.
WorkerTiming workerTiming(std::int64_t small, double small_seconds, std::int64_t large, double large_seconds);

/// What is known about the network of a deck besides the workers.
struct MixTask {
  std::string deck;                ///< name without folder and suffix; "": unknown
  std::int64_t parameters = 0;     ///< of the network
  std::int64_t examples = 1;       ///< of an epoch
  double seconds_per_example = 0.; ///< of a worker that the cluster has no row for
};

/// The workers of a run on so many ranks, with the speeds that the cluster gives to them, `strategy/slowdown`
/// applied. A message to a worker and one back are part of its overhead.
WorkerMix workerMix(const RunConfig& config, std::int64_t ranks, const MixTask& task, const Cluster& cluster);
/// Has the cluster a row for each worker?
bool knowsWorkers(std::int64_t ranks, const MixTask& task, const Cluster& cluster);

} // namespace partita
