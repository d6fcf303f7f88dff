#pragma once

#include "partita/comm/mailbox.hpp"
#include "partita/core/clock.hpp"
#include "partita/train/usual_time.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <map>

namespace partita {

/// Keeps ranks that train independently close together: no rank gets further ahead of the slowest
/// than the slowest advances in half a second, or two steps if that is more. Otherwise a run could
/// not stop until the slowest has caught up.
///
/// Ranks send rank 0 their step several times per second, and at once if they have to wait; rank 0 sends all
/// ranks the step up to which they may go. The slowest never has to wait once its step is known, because its
/// bound is further ahead.
class Pace {
 public:
  /// Starts after run step `first`. `walkers` is the number of ranks whose step is not determined by other
  /// ranks; `walks`: this rank is one of them. Fewer than two need no synchronisation. The mailbox must
  /// outlive the object. `now`: the clock.
  Pace(Mailbox& mailbox, std::int64_t first, int walkers, bool walks,
       std::function<Clock::time_point()> now = Clock::now);

  /// This rank has completed a step.
  void reach(std::int64_t step) { _step = step; }
  bool mayContinue() const { return _step < _bound; }
  /// Sends and receives what is due. To be called after each poll of the mailbox.
  void look();

  /// From now on no rank steps, for another reason than its speed, until it has `rested` for some seconds.
  void rests() { _resting = true; }
  void rested(double seconds);

  /// On rank 0: seconds that the slowest took between two changes of its step; 0: no bound has been sent. A
  /// suspension of the job hardly counts.
  double secondsOfSlowest() const;

 private:
  void sendOwnStep();
  void sendBound();

  double secondsSince(Clock::time_point begin) const { return secondsBetween(begin, _now()); }

  Mailbox& _mailbox;
  int _walkers;
  bool _walks;
  std::int64_t _step, _sent_step;
  std::int64_t _bound = std::numeric_limits<std::int64_t>::max();
  std::function<Clock::time_point()> _now;
  Clock::time_point _sent_at = _now(); ///< when this rank's step was sent
  // Used by rank 0 only.
  std::map<int, std::int64_t> _steps; ///< by rank, as far as known
  std::int64_t _slowest;              ///< its step when the bound was sent
  Clock::time_point _bound_sent_at = _now();
  UsualTime _interval; ///< see secondsOfSlowest
  bool _resting = false;
};

} // namespace partita
