#pragma once

#include "partita/comm/grid.hpp"
#include "partita/plan/pipeline_schedule.hpp"
#include "partita/strategy/pipeline/pipeline_work.hpp"
#include "partita/strategy/schedule_trace.hpp"

#include <memory>

namespace partita {

/// One loop for all schedules: a rank asks its rule for the next operation, computes it, sends the result on,
/// and waits only if no permitted operation has its input. On a device, the next operation may queue behind
/// the one that runs, so that the device need not wait for the host. Receives are posted ahead; sends keep
/// their own buffers until they complete; all buffers are allocated once. On the last rank, loss and backward
/// pass of a microbatch follow its forward pass at once.
///
/// There is no deadlock: a backward pass may run as soon as its gradient has arrived, a window never holds up
/// the oldest microbatch in the pipeline, and a rank never has more messages in flight than live
/// microbatches, for which there are buffers.
class PipelineEngine {
 public:
  /// Largest matrices that cross ranks: rows of a microbatch, values per row; and how they are stored.
  struct Sizes {
    std::int64_t rows = 0, in = 0, out = 0;
    Precision stored_in = Precision::single, stored_out = Precision::single;
  };

  /// For `batches` batches of `microbatches` each; `work` must outlive the engine.
  PipelineEngine(Grid& grid, const StrategySection& strategy, std::int64_t microbatches, const Sizes& sizes,
                 std::int64_t batches, PipelineWork& work);

  /// Runs all operations of one batch, and sends all their results.
  void runBatch(const ExecSpace& space);
  void finish(); ///< after the last batch: waits until all messages have been received
  /// Records operations from now on; null stops recording.
  void setTrace(ScheduleTrace* trace) { _trace = trace; }

  std::int64_t mostLive() const { return _most_live; } ///< the most live microbatches so far
  const ScheduleRule& rule() const { return _rule; }

 private:
  PassKind waitForNext(const ExecSpace& space);
  PassKind next();
  WaitedFor awaited() const;
  void forward(const ExecSpace& space);
  void backward(const ExecSpace& space);

  ScheduleRule _rule;
  std::int64_t _microbatches;
  int _first_stage; ///< of this rank
  PipelineWork& _work;
  ScheduleTrace* _trace = nullptr;
  std::unique_ptr<Receiver> _from_previous, _from_next; ///< null on the first, and on the last rank
  std::unique_ptr<Sender> _onward, _back;
  BatchProgress _progress;
  Arrivals _arrivals;
  std::int64_t _looks = 0, _most_live = 0;
  Event _last, _before; ///< the ends of the last operation and of the one before it
};

} // namespace partita
