#include "partita/strategy/hogbatch/departure.hpp"

#include "partita/core/log.hpp"
#include "partita/plan/hogbatch/deck_mix.hpp"
#include "partita/strategy/hogbatch/run_state.hpp"

#include <algorithm>
#include <functional>

namespace partita {

namespace {

/// The numbers of these workers from 0, the highest first, so that they can be erased one by one.
std::vector<std::size_t> workersOf(const std::vector<int>& ranks) {
  std::vector<std::size_t> workers;
  workers.reserve(ranks.size());
  for (const int rank : ranks) workers.push_back(static_cast<std::size_t>(rank) - 1);
  std::sort(workers.begin(), workers.end(), std::greater<>());
  return workers;
}

template <class T>
void erase(std::vector<T>& values, std::size_t place) {
  if (place < values.size()) values.erase(values.begin() + static_cast<std::ptrdiff_t>(place));
}

/// All shared workers are one group, which is erased with the last of them.
void eraseGroupOf(std::size_t worker, const HogbatchSection& section, HogbatchState& state) {
  if (!section.isShared(worker) || section.shared_workers == 1)
    erase(state.groups, workerGroup(section, worker));
}

/// The report of a lost worker. The coordinator has not noticed losses while all ranks were together.
WorkerCounts countsOf(int rank, const StrategySection& strategy, const Communicator& world,
                      const MeetingState& state) {
  WorkerCounts counts;
  const auto worker = static_cast<std::size_t>(rank) - 1;
  if (worker < state.workers.size()) counts = state.workers[worker];
  counts.rank = world.worldRank(rank);
  counts.shared = strategy.hogbatch.isShared(worker);
  if (counts.isLost()) return counts;
  counts.lost_step = state.any() ? state.position.step : 0;
  counts.lost_seconds = state.times.training;
  Log::warning("rank " + std::to_string(counts.rank) + ": the worker is lost after step " +
               std::to_string(counts.lost_step) + " (strategy/tolerate)");
  return counts;
}

} // namespace

void leaveWorkersOut(const std::vector<int>& ranks, const StrategySection& strategy,
                     const Communicator& world, MeetingState& state) {
  const std::vector<std::size_t> workers = workersOf(ranks);
  for (const std::size_t worker : workers) {
    state.lost.push_back(countsOf(static_cast<int>(worker) + 1, strategy, world, state));
    erase(state.workers, worker);
  }
  if (state.numbers.empty()) return;
  auto found = HogbatchState::from(state.numbers);
  PARTITA_REQUIRE(found.has_value(), "the state of other workers");
  HogbatchSection section = strategy.hogbatch;
  for (const std::size_t worker : workers) {
    eraseGroupOf(worker, section, *found);
    erase(found->workers, worker);
    if (section.isShared(worker)) --section.shared_workers;
  }
  state.numbers = found->numbers();
}

StrategySection withoutWorkers(StrategySection strategy, const std::vector<int>& ranks) {
  HogbatchSection& section = strategy.hogbatch;
  for (const std::size_t worker : workersOf(ranks)) {
    if (section.isShared(worker)) --section.shared_workers;
    erase(section.slowdown, worker);
    erase(section.speeds, worker);
  }
  return strategy;
}

} // namespace partita
