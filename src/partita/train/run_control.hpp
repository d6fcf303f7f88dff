#pragma once

#include "partita/core/clock.hpp"
#include "partita/strategy/divergence.hpp"
#include "partita/train/agreement.hpp"
#include "partita/train/checkpointer.hpp"
#include "partita/train/pace.hpp"
#include "partita/train/restart.hpp"
#include "partita/train/time_reserve.hpp"

#include <optional>

namespace partita {

/// Decides between steps when a checkpoint is due, and when the run ends early because of a signal or its
/// time limit. A request to one rank is fulfilled by all ranks after the same step, see Agreement.
class RunControl : public StepControl {
 public:
  /// `time_limit` in seconds since the program began; 0: none. All references must outlive the object.
  RunControl(const Grid& grid, const RunConfig& config, const RunLength& length, Restart& restart,
             const RunDirectory& directory, Checkpointer& checkpointer, Mailbox& mailbox,
             std::int64_t time_limit);

  void begin(StageUpdater& updater) override;
  bool restore(const ExecSpace& space, StageUpdater& updater) override;
  bool wantsMeeting(const Position& position, const Position& soon, double seconds) override;
  void evaluates() override;
  void evaluated(double seconds) override;
  void keepNumbers(const std::vector<double>& numbers) override { _checkpointer.keepNumbers(numbers); }
  std::vector<double> keptNumbers() const override;
  bool afterStep(const ExecSpace& space, const Position& position,
                 const std::vector<StageUpdater*>& updaters) override;

  /// Waits for the last checkpoint. Collective; returns on every rank whether it was written. Nothing is sent
  /// afterwards.
  bool finish();
  /// What a run that continues with fewer ranks must know about checkpoints.
  void describe(MeetingState& state) const {
    _checkpointer.waitForName();
    state.kept_step = _checkpointer.isNamed() ? _kept_step : _kept_before;
    state.asked = _own.checkpoint != 0;
  }
  /// Why the run ended early, as text; empty if it did not.
  const std::string& stopReason() const { return _stop_reason; }

 private:
  enum StopCode : std::int64_t { none, time_limit, terminated, hung_up, interrupted };
  static StopCode codeOf(int signal);

  Wishes newWishes();
  Wishes agreeAtMeeting();
  bool checkpointDue(std::int64_t run_step) const;
  bool wishedAtEnd(std::int64_t run_step) const;
  bool limitReached() const;

  const Grid& _grid;
  const RunConfig& _config;
  const RunLength& _length;
  Restart& _restart;
  const RunDirectory& _directory;
  Checkpointer& _checkpointer;
  std::int64_t _time_limit;
  Pace _pace;
  std::optional<Agreement> _agreement; ///< none: ranks at their own pace meet when their strategy calls them
  Wishes _own;                         ///< of this rank for the next meeting, at their own pace
  std::int64_t _kept_step;             ///< run step of the last checkpoint, or of the start
  std::int64_t _kept_before;           ///< of the one before
  bool _first_step = true;             ///< of this process
  StopCode _reported_stop = none;
  Clock::time_point _checked;
  TimeReserve _reserve;
  std::string _stop_reason;
  BeforeDivergence _before_divergence;
};

} // namespace partita
