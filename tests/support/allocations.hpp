#pragma once

#include "partita/core/memory.hpp"

namespace partita::test {

/// What was allocated since the object was made; the counter itself starts once per process.
class Allocations {
 public:
  Allocations() {
    static const bool started = (AllocationCounter::start(), true);
    (void)started;
    _count = AllocationCounter::count();
    _foreign = AllocationCounter::foreignLabels();
    _live = AllocationCounter::liveBytes();
    AllocationCounter::restartPeak();
  }
  std::int64_t count() const { return AllocationCounter::count() - _count; }
  std::int64_t foreignLabels() const { return AllocationCounter::foreignLabels() - _foreign; }
  std::int64_t liveBytes() const { return AllocationCounter::liveBytes() - _live; }
  std::int64_t peakBytes() const {
    return AllocationCounter::peakBytes() - _live;
  } ///< of the newest of these

 private:
  std::int64_t _count = 0, _foreign = 0, _live = 0;
};

} // namespace partita::test
