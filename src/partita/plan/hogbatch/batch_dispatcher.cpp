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

} // namespace

BatchDispatcher::BatchDispatcher(std::int64_t examples, std::size_t workers)
    : _examples(examples), _outstanding(workers) {
  if (examples < 1) throw std::logic_error("an epoch without examples");
}

std::optional<ExampleRange> BatchDispatcher::next(std::size_t worker, std::int64_t count) {
  if (count < 1) throw std::logic_error("a batch without examples");
  if (drained()) return std::nullopt;
  ExampleRange range;
  if (_given_back.empty()) {
    range = {_cursor, std::min(count, _examples - _cursor)};
    _cursor += range.count;
  } else {
    ExampleRange& oldest = _given_back.front();
    range = {oldest.first, std::min(count, oldest.count)};
    oldest = {oldest.first + range.count, oldest.count - range.count};
    if (oldest.count == 0) _given_back.erase(_given_back.begin());
  }
  _outstanding.at(worker).push_back(range);
  return range;
}

void BatchDispatcher::finished(std::size_t worker) {
  std::deque<ExampleRange>& own = _outstanding.at(worker);
  if (own.empty()) throw std::logic_error("a worker without a batch has ended one");
  _ended += own.front().count;
  own.pop_front();
}

void BatchDispatcher::giveBack(std::size_t worker) {
  std::deque<ExampleRange>& own = _outstanding.at(worker);
  _given_back.insert(_given_back.end(), own.begin(), own.end());
  own.clear();
}

std::int64_t BatchDispatcher::remaining() const {
  return _examples - _cursor + examplesIn(_given_back);
}

void BatchDispatcher::startEpoch() {
  if (!epochDone()) throw std::logic_error("an epoch starts before the end of the last one");
  startAt(0);
}

void BatchDispatcher::startAt(std::int64_t cursor) {
  if (cursor < 0 || cursor > _examples) throw std::logic_error("a place in another epoch");
  _cursor = _ended = cursor;
  _given_back.clear();
  for (std::deque<ExampleRange>& own : _outstanding) own.clear();
}

std::size_t batchesAtOnce(double seconds, double seconds_left) {
  constexpr double longest = 10e-3, enough = 8e-3; // s: of a batch, and of those in advance
  constexpr double most = 256.0;
  if (seconds <= 0.0 || seconds > longest) return 1;
  const double wanted = std::min(std::ceil(enough / seconds), most),
               in_time = std::ceil(seconds_left / seconds) - 1.0;
  return static_cast<std::size_t>(1.0 + std::max(0.0, std::min(wanted, in_time)));
}

} // namespace partita
