#include "partita/plan/hogbatch/deck_mix.hpp"

#include <algorithm>

namespace partita {

BatchRules batchRules(const RunConfig& config) {
  const HogbatchSection& section = config.strategy.hogbatch;
  BatchRules rules;
  rules.rule = section.rule;
  rules.factor = section.factor;
  rules.growth = section.growth;
  rules.beta = section.beta;
  rules.batch = section.rule == WorkerRule::synchronous ? config.training.batch : 0;
  return rules;
}

std::vector<WorkerGroup> workerGroups(const RunConfig& config, std::int64_t workers) {
  const HogbatchSection& section = config.strategy.hogbatch;
  const bool synchronous = section.rule == WorkerRule::synchronous;
  std::vector<WorkerGroup> groups;
  for (std::int64_t worker = 0; worker < workers; ++worker) {
    const bool shared = section.isShared(static_cast<std::size_t>(worker));
    if (shared && worker > 0 && !synchronous) {
      ++groups.front().workers;
      continue;
    }
    WorkerGroup group;
    group.role = shared ? WorkerRole::shared : WorkerRole::replica;
    const HogbatchSection::Bounds bounds = section.bounds(shared, config.training.batch);
    if (synchronous) {
      group.start = std::max<std::int64_t>(1, config.training.batch / workers);
      group.upper = config.training.batch;
    } else {
      group.start = bounds.start;
      group.lower = section.movesBatches() ? bounds.lower : bounds.start;
      group.upper = section.movesBatches() ? bounds.upper : bounds.start;
    }
    groups.push_back(group);
  }
  return groups;
}

std::size_t workerGroup(const HogbatchSection& section, std::size_t worker) {
  const auto shared = static_cast<std::size_t>(section.shared_workers);
  if (section.rule == WorkerRule::synchronous || shared == 0) return worker;
  return worker < shared ? 0 : worker - shared + 1;
}

std::vector<double> givenSpeeds(const HogbatchSection& section, std::size_t workers) {
  std::vector<double> speeds(section.speeds.begin(), section.speeds.end());
  if (!speeds.empty()) speeds.resize(workers, 1.0);
  return speeds;
}

std::pair<std::int64_t, std::int64_t> timedBatches(const RunConfig& config) {
  const std::int64_t workers = config.strategy.hogbatch.shared_workers + 1;
  std::pair<std::int64_t, std::int64_t> range{config.training.batch, 0};
  for (const WorkerGroup& group : workerGroups(config, workers)) {
    range.first = std::min(range.first, group.lower);
    range.second = std::max(range.second, group.upper);
  }
  if (range.second <= range.first) range.second = 4 * range.first;
  return range;
}

namespace {

/// A worker on another node gets the model by a request, and sends two vectors of its size to change it. The
/// overhead in the cluster is that of whole steps, which end with an update.
WorkerSpeed workerSpeed(const HogbatchSection& section, std::size_t index, std::int64_t ranks,
                        const MixTask& task, const Cluster& cluster) {
  constexpr double order_bytes = 256.0; // about that of an order, of a request, and of the answers
  const auto rank = static_cast<std::int64_t>(index) + 1;
  const bool shared = section.isShared(index), elsewhere = !shared && rank >= cluster.node_ranks;
  const Link& link = cluster.links.of(elsewhere ? ranks : 2);
  const double order = 2.0 * link.seconds(order_bytes), vector = link.seconds(task.model_bytes);
  WorkerSpeed worker{workerGroup(section, index), task.seconds_per_update, 1.0 / task.seconds_per_example,
                     ""};
  if (const WorkerTiming* timing = cluster.worker(task.deck, task.parameters, rank)) {
    worker.overhead = timing->overhead;
    worker.speed = timing->samples_per_second;
  }
  const auto slowdown = static_cast<double>(section.slowdownOf(index));
  const double update = std::min(task.seconds_per_update, worker.overhead);
  worker.order = order;
  worker.merge = update + (elsewhere ? order + 2.0 * vector : 0.0);
  worker.overhead =
      slowdown * (worker.overhead - update) + order + (elsewhere ? order + vector : 0.0) + worker.merge;
  worker.speed /= slowdown;
  worker.name = "rank " + std::to_string(rank) + (shared ? ", shared" : ", replica");
  return worker;
}

} // namespace

WorkerMix workerMix(const RunConfig& config, std::int64_t ranks, const MixTask& task,
                    const Cluster& cluster) {
  const HogbatchSection& section = config.strategy.hogbatch;
  WorkerMix mix;
  mix.rules = batchRules(config);
  mix.groups = workerGroups(config, ranks - 1);
  mix.examples = task.examples;
  mix.rate = {static_cast<double>(config.training.batch), section.rate_cap};
  mix.staleness = {section.staleness, section.staleness_bound};
  mix.keys = {section.merge, section.tolerate, section.slowdown, section.batch_shared};
  const std::size_t workers = static_cast<std::size_t>(ranks) - 1;
  mix.speeds = givenSpeeds(section, workers);
  for (std::size_t i = 0; i < workers; ++i)
    mix.workers.push_back(workerSpeed(section, i, ranks, task, cluster));
  return mix;
}

WorkerMix mixWithinBounds(RunConfig config, std::int64_t ranks, const MixTask& task, const Cluster& cluster) {
  HogbatchSection& section = config.strategy.hogbatch;
  if (section.rule == WorkerRule::synchronous) section.rule = WorkerRule::fixed;
  WorkerMix mix = workerMix(config, ranks, task, cluster);
  for (WorkerGroup& group : mix.groups) {
    const HogbatchSection::Bounds bounds =
        section.bounds(group.role == WorkerRole::shared, config.training.batch);
    group.lower = std::min(bounds.lower, group.start);
    group.upper = std::max(std::min(bounds.upper, task.examples), group.start);
  }
  return mix;
}

bool knowsWorkers(std::int64_t ranks, const MixTask& task, const Cluster& cluster) {
  for (std::int64_t rank = 1; rank < ranks; ++rank)
    if (cluster.worker(task.deck, task.parameters, rank) == nullptr) return false;
  return true;
}

} // namespace partita
