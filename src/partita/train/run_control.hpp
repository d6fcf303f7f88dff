#pragma once

#include "partita/comm/later_maximum.hpp"
#include "partita/core/clock.hpp"
#include "partita/train/checkpointer.hpp"
#include "partita/train/restart.hpp"

namespace partita {

/// Decides between steps: when a checkpoint is due, and when the run ends early, because of a signal or its
/// time limit. Ranks agree by a small all-reduce a few times a second, whose answer is acted upon some steps
/// later, so that nobody waits for the slowest.
class RunControl : public StepControl {
 public:
  /// `time_limit` in seconds since the program began; 0: none. All references outlive it. Collective.
  RunControl(const Grid& grid, const RunConfig& config, const RunLength& length, Restart& restart,
             const RunDirectory& directory, Checkpointer& checkpointer, std::int64_t time_limit);

  void begin(StageUpdater& updater) override;
  bool restore(const ExecSpace& space, StageUpdater& updater) override;
  bool afterStep(const ExecSpace& space, const Position& position,
                 const std::vector<StageUpdater*>& updaters) override;

  /// Waits for the last checkpoint. Collective; the same answer on every rank: whether it was written.
  bool finish();
  /// Why the run ended early, in words; empty where it did not.
  const std::string& stopReason() const { return _stop_reason; }

 private:
  /// What a rank asks for, and the largest of all is done.
  enum Ask : std::size_t { stop, checkpoint, interval };
  enum StopCode : std::int64_t { none, time_limit, terminated, hung_up, interrupted };
  static StopCode codeOf(int signal);

  LaterMaximum::Values ownWishes(std::int64_t steps);
  bool limitReached() const;
  LaterMaximum::Values agree(std::int64_t steps);

  const Grid& _grid;
  const RunConfig& _config;
  const RunLength& _length;
  Restart& _restart;
  const RunDirectory& _directory;
  Checkpointer& _checkpointer;
  std::int64_t _time_limit;
  LaterMaximum _agreement;
  std::int64_t _step = 0, _next_agreement = 1, _asked_at = 0; ///< steps of this call of the program
  Clock::time_point _asked = Clock::now();
  double _last_gap = 0.0; ///< seconds between two questions
  std::string _stop_reason;
};

} // namespace partita
