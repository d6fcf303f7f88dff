#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <numeric>
#include <optional>
#include <vector>

namespace partita {

/// Consecutive positions in the order of an epoch.
struct ExampleRange {
  std::int64_t first = 0, count = 0;
  bool operator==(const ExampleRange& other) const { return first == other.first && count == other.count; }
};

/// Hands out each example of an epoch once. A worker ends its batches in the order in which it got them. The
/// batches of a lost worker go to others.
class BatchDispatcher {
 public:
  /// The first epoch starts at once.
  BatchDispatcher(std::int64_t examples, std::size_t workers);

  /// The next batch of a worker: `count` examples, or fewer at the end of the epoch or of a batch that was
  /// given back. Empty if all examples are handed out; there may be more later if another worker is lost.
  /// Throws std::logic_error if `count` is less than one.
  std::optional<ExampleRange> next(std::size_t worker, std::int64_t count);
  /// The worker has ended its oldest batch. Throws std::logic_error if it has none.
  void finished(std::size_t worker);
  /// The worker will not end its batches, if it has any; others get them.
  void giveBack(std::size_t worker);

  /// The batches that the worker has, the oldest first.
  const std::deque<ExampleRange>& outstanding(std::size_t worker) const { return _outstanding.at(worker); }
  /// Are there examples that were given back and not handed out again?
  bool hasGivenBack() const { return !_given_back.empty(); }
  std::int64_t examples() const { return _examples; }
  /// Examples of batches that have ended, in this epoch.
  std::int64_t ended() const { return _ended; }
  /// Examples of the epoch that are not handed out.
  std::int64_t remaining() const;
  /// Are all examples handed out? Some may still come back.
  bool drained() const { return remaining() == 0; }
  /// Has each example been in a batch that has ended?
  bool epochDone() const { return _ended == _examples; }
  /// Throws std::logic_error before the end of the current one.
  void startEpoch();
  /// Begins or continues an epoch of which the examples before `cursor` are done. Throws std::logic_error if
  /// it has no such example.
  void startAt(std::int64_t cursor);

 private:
  std::int64_t _examples;
  std::int64_t _cursor = 0;              ///< first example that has not been handed out
  std::int64_t _ended = 0;               ///< examples of ended batches
  std::vector<ExampleRange> _given_back; ///< before the cursor: to be handed out again
  std::vector<std::deque<ExampleRange>> _outstanding;
};

/// The order in which idle workers get batches at the start of an epoch: those with the fewest examples so
/// far come first. An epoch may be too short for all of them. `Worker` has a count `examples`.
template <class Worker>
std::vector<std::size_t> fewestFirst(const std::vector<Worker>& workers) {
  std::vector<std::size_t> order(workers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return workers[a].examples < workers[b].examples; });
  return order;
}

/// How many batches a worker should have at once if its batches take `seconds` (0: unknown), and all workers
/// together need `seconds_left` for the examples of the epoch that are not handed out yet. If batches are
/// short, the worker gets some in advance; otherwise it would spend much of its time waiting for rank 0,
/// which sleeps between messages. It gets none in advance that are long, or more than it computes in the time
/// left, because others would have to wait for them at the end of the epoch.
std::size_t batchesAtOnce(double seconds, double seconds_left);

} // namespace partita
