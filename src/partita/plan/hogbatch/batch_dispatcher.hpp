#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace partita {

/// Consecutive positions in the order of an epoch.
struct ExampleRange {
  std::int64_t first = 0, count = 0;
  bool operator==(const ExampleRange& other) const { return first == other.first && count == other.count; }
};

/// Where an epoch is. Plain numbers, which a checkpoint can keep.
struct DispatcherState {
  std::int64_t cursor = 0;           ///< first example that nobody has got yet
  std::int64_t finished = 0;         ///< examples of ended batches
  std::vector<ExampleRange> pending; ///< before the cursor, but not ended: to be handed out again
};

/// Hands out the examples of an epoch, each once: a worker ends its batches in the order in which it got
/// them, and the batches of a worker that is lost go to others.
class BatchDispatcher {
 public:
  /// The first epoch starts at once.
  BatchDispatcher(std::int64_t examples, std::size_t workers);

  /// A further batch of a worker: `count` examples, or those that are left of the epoch or of a batch
  /// that was given back. Empty if all examples are handed out; the worker may get some later, if another is
  /// lost. Throws std::logic_error for less than one example.
  std::optional<ExampleRange> next(std::size_t worker, std::int64_t count);
  /// The worker has ended its oldest batch. Throws std::logic_error if it has none.
  void finished(std::size_t worker);
  /// The worker will not end its batches, if it has any: others get them.
  void giveBack(std::size_t worker);

  /// The batches that the worker has, the oldest first.
  const std::deque<ExampleRange>& outstanding(std::size_t worker) const { return _outstanding.at(worker); }
  std::int64_t outstandingBatches() const;
  /// Are there examples of batches that were given back, and that nobody has now?
  bool hasGivenBack() const { return !_state.pending.empty(); }
  std::int64_t examples() const { return _examples; }
  /// Examples of the epoch that no worker has now or has ended.
  std::int64_t remaining() const;
  /// Are all examples handed out? Some may still come back.
  bool drained() const { return remaining() == 0; }
  /// Has each example been in a batch that has ended?
  bool epochDone() const { return _state.finished == _examples; }
  /// Throws std::logic_error before the end of the current one.
  void startEpoch();

  /// With outstanding batches among the pending ones: their updates are not in the parameters yet.
  DispatcherState state() const;
  /// Continues an epoch of as many examples, in which no worker has a batch. Throws std::logic_error if the
  /// numbers do not add up.
  void restore(const DispatcherState& state);

 private:
  std::int64_t _examples;
  DispatcherState _state; ///< pending: given back
  std::vector<std::deque<ExampleRange>> _outstanding;
};

/// How many batches a worker should have at once whose batches take `seconds` (0: unknown). While `left`
/// examples of the epoch are to be handed out and all workers together take `next` at a time, it gets some in
/// advance if they are short: it would wait for rank 0, which sleeps between messages, for a good part of
/// them. Not if they are longer, because others may then have to wait for them at the end of the epoch.
std::size_t batchesAtOnce(double seconds, std::int64_t left, std::int64_t next);

} // namespace partita
