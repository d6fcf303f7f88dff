#pragma once

#include <algorithm>

namespace partita {

/// How long a repeated task is expected to take: as long as the last time. Batch systems may suspend a job
/// and resume it much later, so a new time counts only up to ten times the last one, or up to `floor` seconds
/// if that is more. The first one counts in full. For waits that are polled, see WatchedTime.
class UsualTime {
 public:
  explicit UsualTime(double floor = 60.0) : _floor(floor) {}

  void measured(double seconds) {
    _last = counted(seconds);
    _known = true;
  }
  bool known() const { return _known; }
  double last() const { return _last; } ///< s; 0 before the first
  /// How much of a new time counts; the task may still be going on.
  double counted(double seconds) const {
    constexpr double factor = 10.0;
    return _known ? std::min(seconds, std::max(factor * _last, _floor)) : seconds;
  }

 private:
  double _floor;
  double _last = 0.0;
  bool _known = false;
};

} // namespace partita
