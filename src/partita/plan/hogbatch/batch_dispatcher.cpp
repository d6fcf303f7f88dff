#include "partita/plan/hogbatch/batch_dispatcher.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace partita {

namespace {

std::int64_t examplesIn(const std::vector<ExampleRange>& ranges) {
  std::int64_t sum = 0;
  for (const ExampleRange& range : ranges) sum += range.count;
  return sum;
}

/// Are the ranges before `end` and disjoint?
bool areApart(std::vector<ExampleRange> ranges, std::int64_t end) {
  std::sort(ranges.begin(), ranges.end(),
            [](const ExampleRange& a, const ExampleRange& b) { return a.first < b.first; });
  std::int64_t free = 0;
  for (const ExampleRange& range : ranges) {
    if (range.first < free || range.count < 1) return false;
    free = range.first + range.count;
  }
  return free <= end;
}

} // namespace

BatchDispatcher::BatchDispatcher(std::int64_t examples, std::size_t workers)
    : _examples(examples), _outstanding(workers) {
  if (examples < 1) throw std::logic_error("an epoch without examples");
}

std::optional<ExampleRange> BatchDispatcher::next(std::size_t worker, std::int64_t count) {
  if (count < 1) throw std::logic_error("a batch without examples");
  if (drained()) return std::nullopt;
  ExampleRange range;
  if (_state.pending.empty()) {
    range = {_state.cursor, std::min(count, _examples - _state.cursor)};
    _state.cursor += range.count;
  } else {
    ExampleRange& oldest = _state.pending.front();
    range = {oldest.first, std::min(count, oldest.count)};
    oldest = {oldest.first + range.count, oldest.count - range.count};
    if (oldest.count == 0) _state.pending.erase(_state.pending.begin());
  }
  _outstanding.at(worker).push_back(range);
  return range;
}

void BatchDispatcher::finished(std::size_t worker) {
  std::deque<ExampleRange>& own = _outstanding.at(worker);
  if (own.empty()) throw std::logic_error("a worker without a batch has ended one");
  _state.finished += own.front().count;
  own.pop_front();
}

void BatchDispatcher::giveBack(std::size_t worker) {
  std::deque<ExampleRange>& own = _outstanding.at(worker);
  _state.pending.insert(_state.pending.end(), own.begin(), own.end());
  own.clear();
}

std::int64_t BatchDispatcher::remaining() const {
  return _examples - _state.cursor + examplesIn(_state.pending);
}

void BatchDispatcher::startEpoch() {
  if (!epochDone()) throw std::logic_error("an epoch starts before the end of the last one");
  _state = {};
}

DispatcherState BatchDispatcher::state() const {
  DispatcherState state = _state;
  for (const std::deque<ExampleRange>& own : _outstanding)
    state.pending.insert(state.pending.end(), own.begin(), own.end());
  return state;
}

void BatchDispatcher::restore(const DispatcherState& state) {
  const bool fits = state.cursor >= 0 && state.cursor <= _examples && areApart(state.pending, state.cursor) &&
                    state.finished + examplesIn(state.pending) == state.cursor;
  if (!fits) throw std::logic_error("the state of another epoch");
  _state = state;
  for (std::deque<ExampleRange>& own : _outstanding) own.clear();
}

std::size_t batchesAtOnce(double seconds, std::int64_t left, std::int64_t next) {
  constexpr double longest = 10e-3, enough = 8e-3; // s: of a batch, and of those in advance
  constexpr std::int64_t most = 256;
  if (seconds <= 0.0 || seconds > longest) return 1;
  const auto wanted = static_cast<std::int64_t>(std::ceil(enough / seconds));
  const std::int64_t rounds = left > next ? left / std::max<std::int64_t>(1, next) : 0;
  return static_cast<std::size_t>(1 + std::min({wanted, most, rounds}));
}

} // namespace partita
