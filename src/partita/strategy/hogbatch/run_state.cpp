#include "partita/strategy/hogbatch/run_state.hpp"

#include <cmath>
#include <type_traits>

namespace partita {

namespace {

/// Calls `take` with each number of a state, in a fixed order.
template <class State, class Take>
void visitRun(State& state, const Take& take) {
  take(state.epoch);
  take(state.cursor);
  take(state.batches);
  take(state.version);
  take(state.seconds);
  take(state.loss);
  take(state.correct);
  take(state.rows);
}

template <class Group, class Take>
void visitGroup(Group& group, const Take& take) {
  take(group.size);
  take(group.workers);
  take(group.ended);
  take(group.updates);
  take(group.round_updates);
  take(group.round_examples);
  take(group.timed_examples);
  take(group.timed_seconds);
  take(group.round_batches);
  take(group.lap_updates);
  take(group.lap_batches);
  take(group.resized);
}

template <class Worker, class Take>
void visitWorker(Worker& worker, const Take& take) {
  take(worker.updates);
  take(worker.examples);
  take(worker.batches);
  take(worker.dropped);
  take(worker.overwritten);
  take(worker.batch_first);
  take(worker.batch_last);
  take(worker.busy_seconds);
  take(worker.staleness_sum);
  take(worker.staleness_max);
  take(worker.given_away);
}

template <class State, class Take>
void visitAll(State& state, const Take& take) {
  visitRun(state, take);
  for (auto& group : state.groups) visitGroup(group, take);
  for (auto& worker : state.workers) visitWorker(worker, take);
  for (auto& reached : state.reached) {
    take(reached.loss);
    take(reached.seconds);
  }
}

/// Returns false if the type does not hold the value.
template <class Number>
bool convert(double value, Number& number) {
  constexpr double most = 1LL << 53; // not all larger integers are exact in a double
  if (std::is_integral_v<Number> && !(std::abs(value) <= most)) return false;
  number = static_cast<Number>(value);
  return true;
}

} // namespace

/// The numbers of groups and workers come first, and what has no fixed number last.
std::vector<double> HogbatchState::numbers() const {
  std::vector<double> all{static_cast<double>(groups.size()), static_cast<double>(workers.size())};
  visitAll(*this, [&](const auto& number) { all.push_back(static_cast<double>(number)); });
  return all;
}

std::optional<HogbatchState> HogbatchState::from(const std::vector<double>& numbers) {
  const auto counts = [&](double number) { // a list has more numbers than groups or workers
    return number >= 0.0 && number < static_cast<double>(numbers.size());
  };
  if (numbers.size() < 2 || !counts(numbers[0]) || !counts(numbers[1])) return {};
  return from(numbers, static_cast<std::size_t>(numbers[0]), static_cast<std::size_t>(numbers[1]));
}

std::optional<HogbatchState> HogbatchState::from(const std::vector<double>& numbers, std::size_t groups,
                                                 std::size_t workers) {
  HogbatchState state;
  state.groups.resize(groups);
  state.workers.resize(workers);
  const std::size_t least = state.numbers().size();
  bool fits = numbers.size() >= least && (numbers.size() - least) % 2 == 0 &&
              numbers[0] == static_cast<double>(groups) && numbers[1] == static_cast<double>(workers);
  if (!fits) return {};
  state.reached.resize((numbers.size() - least) / 2);
  auto next = numbers.begin() + 2;
  visitAll(state, [&](auto& number) { fits = convert(*next++, number) && fits; });
  if (!fits) return {};
  return state;
}

} // namespace partita
