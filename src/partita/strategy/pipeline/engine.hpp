#pragma once

#include "partita/comm/grid.hpp"
#include "partita/strategy/pipeline/pipeline_work.hpp"
#include "partita/strategy/pipeline/schedule.hpp"
#include "partita/strategy/pipeline/schedule_trace.hpp"

#include <memory>

namespace partita {

/// One loop for all schedules: a rank asks its rule for the next operation, computes it, sends on what comes
/// of it, and waits only where nothing that may come next is there. Receives are posted ahead, sends have
/// buffers of their own until they are taken; all are made once. The last rank turns each microbatch round at
/// once: its loss and backward pass follow the forward pass.
///
/// Nothing can wait for ever: a backward pass may run wherever its gradient has come, the oldest microbatch
/// in the pipeline is never held up by a window, and a rank never has more messages on their way than it has
/// live microbatches, for which there are buffers.
class PipelineEngine {
 public:
  /// Largest matrices that cross ranks: rows of a microbatch, values a row.
  struct Sizes {
    std::int64_t rows = 0, in = 0, out = 0;
  };

  /// For `batches` batches of `microbatches` each; `work` outlives it.
  PipelineEngine(Grid& grid, const StrategySection& strategy, std::int64_t microbatches, const Sizes& sizes,
                 std::int64_t batches, PipelineWork& work);

  /// All operations of one batch.
  void runBatch(const ExecSpace& space);
  /// Notes operations from here on; null: no more.
  void setTrace(ScheduleTrace* trace) { _trace = trace; }

  std::int64_t mostLive() const { return _most_live; } ///< microbatches kept at once so far
  const ScheduleRule& rule() const { return _rule; }

 private:
  PassKind waitForNext();
  PassKind next();
  WaitedFor awaited() const;
  void forward(const ExecSpace& space);
  void backward(const ExecSpace& space);

  ScheduleRule _rule;
  std::int64_t _microbatches;
  PipelineWork& _work;
  ScheduleTrace* _trace = nullptr;
  std::unique_ptr<Receiver> _from_previous, _from_next; ///< none on the first rank, none on the last
  std::unique_ptr<Sender> _onward, _back;
  BatchProgress _progress;
  Arrivals _arrivals;
  std::int64_t _looks = 0, _most_live = 0;
};

} // namespace partita
