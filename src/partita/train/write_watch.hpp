#pragma once

#include "partita/core/asynchronous.hpp"
#include "partita/core/watched_time.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace partita {

/// Notices that a run file, which all ranks write together in other threads, makes no progress, as on a file
/// system that hangs: HDF5 itself would wait forever. A rank that has written its own part waits for the
/// others, so the file counts as well: it changes while any rank writes. While the batch system suspends the
/// job, nobody writes: of a time without a look, only a part counts.
class WriteWatch {
 public:
  /// `file`: the file being written. `patience`: seconds without progress; 0: any number. `clock`: the
  /// seconds since the construction; empty: those of the system.
  WriteWatch(const std::string& file, std::int64_t patience, std::function<double()> clock = {});

  /// To be called again and again while this thread waits. Returns whether this rank has written nothing and
  /// the file has not changed for the patience of the watch.
  bool stalled();

 private:
  struct File;
  void lookAtFile();
  double secondsWithoutProgress();

  double now() { return _time.look(_between); }

  double _patience, _between; ///< s; looks are `_between` apart: many ranks ask one file system
  WatchedTime _time;
  std::shared_ptr<File> _file;
  std::unique_ptr<BackgroundThread> _thread; ///< looks at the file; null before the first look
  std::int64_t _progress;
  double _moved = 0.0, _looked = 0.0; ///< s
};

/// Runs collective work on a file, in a thread if `threaded`, so that this thread notices a file system that
/// hangs. Throws what `work` throws, and RunError if the writing of PATH.partial makes no progress for
/// `patience` seconds (0: never).
void doWatched(const std::string& path, std::int64_t patience, bool threaded,
               const std::function<void()>& work);

} // namespace partita
