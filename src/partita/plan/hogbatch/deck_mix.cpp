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

WorkerMix workerMix(const RunConfig& config, std::int64_t ranks, const MixTask& task,
                    const Cluster& cluster) {
  const HogbatchSection& section = config.strategy.hogbatch;
  constexpr double order_bytes = 256.0; // about that of an order, and of the answer
  const double message = cluster.links.of(2).seconds(order_bytes);
  WorkerMix mix;
  mix.rules = batchRules(config);
  mix.groups = workerGroups(config, ranks - 1);
  mix.examples = task.examples;
  mix.rate = {static_cast<double>(config.training.batch), section.rate_cap};
  mix.staleness = {section.staleness, section.staleness_bound};
  const std::size_t workers = static_cast<std::size_t>(ranks) - 1;
  mix.speeds = givenSpeeds(section, workers);
  for (std::size_t i = 0; i < workers; ++i) {
    const auto rank = static_cast<std::int64_t>(i) + 1;
    const auto slowdown = static_cast<double>(section.slowdownOf(i));
    WorkerSpeed worker{workerGroup(section, i), 0.0, 1.0 / task.seconds_per_example, ""};
    if (const WorkerTiming* timing = cluster.worker(task.deck, task.parameters, rank)) {
      worker.overhead = timing->overhead;
      worker.speed = timing->samples_per_second;
    }
    worker.overhead = 2.0 * message + slowdown * worker.overhead;
    worker.speed /= slowdown;
    worker.name = "rank " + std::to_string(rank) + (section.isShared(i) ? ", shared" : ", replica");
    mix.workers.push_back(worker);
  }
  return mix;
}

bool knowsWorkers(std::int64_t ranks, const MixTask& task, const Cluster& cluster) {
  for (std::int64_t rank = 1; rank < ranks; ++rank)
    if (cluster.worker(task.deck, task.parameters, rank) == nullptr) return false;
  return true;
}

} // namespace partita
