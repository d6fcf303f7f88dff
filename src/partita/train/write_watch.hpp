#pragma once

#include "partita/core/asynchronous.hpp"
#include "partita/core/clock.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace partita {

/// Notices that a run file, which all ranks write together in other threads, makes no progress, as on a file
/// system that hangs: HDF5 itself would wait forever. A rank that has written its own part waits for the
/// others, so the file counts as well: it changes while any rank writes.
class WriteWatch {
 public:
  /// `file`: the file being written. `patience`: seconds without progress; 0: any number. `now`: the clock.
  WriteWatch(const std::string& file, std::int64_t patience,
             std::function<Clock::time_point()> now = Clock::now);

  /// To be called again and again while this thread waits. Returns whether this rank has written nothing and
  /// the file has not changed for the patience of the watch.
  bool stalled();

 private:
  struct File;
  void lookAtFile();
  double secondsWithoutProgress();

  double secondsSince(Clock::time_point begin) const { return secondsBetween(begin, _now()); }

  double _patience;
  std::function<Clock::time_point()> _now;
  std::shared_ptr<File> _file;
  std::unique_ptr<BackgroundThread> _thread; ///< looks at the file; null before the first look
  std::int64_t _progress;
  Clock::time_point _moved = _now(), _looked = _moved;
};

} // namespace partita
