#pragma once

#include <algorithm>

namespace partita {

/// How long something takes that the run does again and again, going by the last time. Batch systems may
/// suspend a job and let it go on much later: at most ten times as long as the time before counts, or a
/// minute. Before the first time, all counts.
class UsualTime {
 public:
  void measured(double seconds) {
    _last = counted(seconds);
    _known = true;
  }
  bool known() const { return _known; }
  double last() const { return _last; } ///< s; 0 before the first
  /// What counts of another time, which may not be over.
  double counted(double seconds) const {
    constexpr double factor = 10.0, minute = 60.0;
    return _known ? std::min(seconds, std::max(factor * _last, minute)) : seconds;
  }

 private:
  double _last = 0.0;
  bool _known = false;
};

} // namespace partita
