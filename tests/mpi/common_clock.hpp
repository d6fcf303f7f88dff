#pragma once

#include "partita/comm/shared_window.hpp"
#include "partita/core/clock.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

namespace partita::test {

/// A clock of several ranks. It stands still while one of them is halted, as often happens on shared
/// machines, so no rank takes such a halt for silence. Ranks have to look at the clock again and again.
class CommonClock {
 public:
  /// Starts at zero. Collective.
  explicit CommonClock(const Communicator& ranks)
      : _window(ranks, ranks.size() * std::int64_t{sizeof(Seconds)}),
        _all(static_cast<Seconds*>(_window.data())), _end(_all + ranks.size()), _own(_all + ranks.rank()) {
    ranks.barrier();
  }

  /// The time of the rank that is furthest behind.
  double seconds() {
    const auto now = Clock::now();
    const double passed = std::min(secondsBetween(_last, now), most);
    _last = now;
    _own->store(std::max(_own->load(), std::min(_own->load() + passed, least() + most)));
    return least();
  }

  /// Lets time pass for the others although this rank does not look at the clock until it comes back.
  void leave() { _own->store(std::numeric_limits<double>::infinity()); }
  /// The clock may step back by a moment if this rank is halted within the call.
  void comeBack() { _own->store(least()); }

 private:
  using Seconds = std::atomic<double>;
  static_assert(Seconds::is_always_lock_free, "processes share it");

  /// At most this much of a halt counts. A watchdog starts over after a gap of two of the tests' signs.
  static constexpr double most = 0.15;

  double least() const {
    double least = std::numeric_limits<double>::infinity();
    for (const Seconds* each = _all; each != _end; ++each) least = std::min(least, each->load());
    return least;
  }

  SharedWindow _window;
  Seconds* _all; ///< by rank: how much time has passed for it
  Seconds* _end;
  Seconds* _own;
  Clock::time_point _last = Clock::now();
};

} // namespace partita::test
