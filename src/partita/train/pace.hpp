#pragma once

#include "partita/comm/mailbox.hpp"
#include "partita/core/clock.hpp"

#include <cstdint>
#include <limits>
#include <map>

namespace partita {

/// Keeps ranks that train independently together: none is further ahead of the slowest than the slowest gets
/// in half a second, or by two steps. Otherwise a run could not stop before the slowest has caught up.
///
/// Ranks tell rank 0 their step some times a second, and at once where they have to wait; rank 0 tells all
/// how far they may go. The slowest never has to wait once its step is known: its bound is further.
class Pace {
 public:
  /// After the run step `first`. `walkers` ranks have a step that others do not determine; `walks`: this is
  /// one of them. Fewer than two need not be kept together. The mailbox outlives it.
  Pace(Mailbox& mailbox, std::int64_t first, int walkers, bool walks);

  /// This rank has completed a step.
  void reach(std::int64_t step) { _step = step; }
  bool mayGoOn() const { return _step < _bound; }
  /// Tells and takes what is to be told. To be called after each poll of the mailbox.
  void look();

  /// On rank 0: seconds that the slowest took from one change of its step to the next; 0: nobody is told.
  double secondsOfSlowest() const;

 private:
  void tellOwnStep();
  void tellBound();

  Mailbox& _mailbox;
  int _walkers;
  bool _walks;
  std::int64_t _step, _told_step;
  std::int64_t _bound = std::numeric_limits<std::int64_t>::max();
  Clock::time_point _told = Clock::now(); ///< own step
  // Of rank 0.
  std::map<int, std::int64_t> _steps; ///< by rank, as far as they are known
  std::int64_t _slowest;              ///< when the bound was told
  Clock::time_point _bound_told = Clock::now();
  double _interval = 0.0; ///< s
};

} // namespace partita
