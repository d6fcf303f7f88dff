#pragma once

#include "partita/core/clock.hpp"
#include "partita/train/agreement.hpp"
#include "partita/train/checkpointer.hpp"
#include "partita/train/pace.hpp"
#include "partita/train/restart.hpp"

namespace partita {

/// Decides between steps: when a checkpoint is due, and when the run ends early, because of a signal or its
/// time limit. What one rank is asked for all ranks do after the same step, see Agreement.
class RunControl : public StepControl {
 public:
  /// `time_limit` in seconds since the program began; 0: none. All references outlive it.
  RunControl(const Grid& grid, const RunConfig& config, const RunLength& length, Restart& restart,
             const RunDirectory& directory, Checkpointer& checkpointer, Mailbox& mailbox,
             std::int64_t time_limit);

  void begin(StageUpdater& updater) override;
  bool restore(const ExecSpace& space, StageUpdater& updater) override;
  bool afterStep(const ExecSpace& space, const Position& position,
                 const std::vector<StageUpdater*>& updaters) override;

  /// Waits for the last checkpoint. Collective; the same answer on every rank: whether it was written.
  /// Nothing is sent after it.
  bool finish();
  /// Why the run ended early, in words; empty where it did not.
  const std::string& stopReason() const { return _stop_reason; }

 private:
  enum StopCode : std::int64_t { none, time_limit, terminated, hung_up, interrupted };
  static StopCode codeOf(int signal);

  Wishes newWishes();
  bool limitReached() const;
  void measure();

  const Grid& _grid;
  const RunConfig& _config;
  const RunLength& _length;
  Restart& _restart;
  const RunDirectory& _directory;
  Checkpointer& _checkpointer;
  std::int64_t _time_limit;
  Pace _pace;
  Agreement _agreement;
  bool _first_step = true; ///< of this call of the program
  StopCode _told_stop = none;
  Clock::time_point _checked, _measured = Clock::now();
  double _gap = 0.0; ///< s: of as many steps as take a quarter of a second, one at least
  std::string _stop_reason;
};

} // namespace partita
