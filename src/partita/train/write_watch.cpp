#include "partita/train/write_watch.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/loss_watch.hpp"
#include "partita/comm/wait.hpp"
#include "partita/core/error.hpp"
#include "partita/io/write_progress.hpp"

#include <exception>
#include <filesystem>
#include <utility>
#include <vector>

namespace partita {

namespace fs = std::filesystem;

/// What the system says about the file. Only the thread that looks uses it, apart from the atomic numbers.
struct WriteWatch::File {
  explicit File(std::string name) : path(std::move(name)) {}

  /// The size alone says little: HDF5 may reserve the room of all tensors first.
  void look() {
    std::error_code none;
    const std::uintmax_t now = fs::file_size(path, none);
    const fs::file_time_type changed = fs::last_write_time(path, none);
    if (now != size || changed != time) ++changes;
    size = now;
    time = changed;
    busy = false;
  }

  std::string path;
  std::uintmax_t size = 0;
  fs::file_time_type time;
  std::atomic<std::int64_t> changes{0};
  std::atomic<bool> busy{false};
};

WriteWatch::WriteWatch(const std::string& file, std::int64_t patience, std::function<double()> clock)
    : _patience(static_cast<double>(patience)), _between(0.25 * _patience), _time(std::move(clock)),
      _file(std::make_shared<File>(file)), _progress(bytes_written) {}

/// In a thread, because the question about a file may hang like the file itself.
void WriteWatch::lookAtFile() {
  _looked = now();
  if (_file->busy.exchange(true)) return;
  if (_thread == nullptr) _thread = std::make_unique<BackgroundThread>(true);
  _thread->submit([file = _file] { file->look(); });
}

double WriteWatch::secondsWithoutProgress() {
  const std::int64_t progress = bytes_written + _file->changes;
  if (progress != _progress) {
    _progress = progress;
    _moved = now();
  }
  return now() - _moved;
}

/// If this process was halted, its last look is old: one more decides, which may hang like the file itself.
bool WriteWatch::stalled() {
  if (_patience == 0.0) return false;
  if (now() - _looked > _between) lookAtFile();
  if (secondsWithoutProgress() <= _patience) return false;
  lookAtFile();
  const double begin = now();
  while (_file->busy && now() - begin < _between) idleBriefly();
  return secondsWithoutProgress() > _patience;
}

namespace {

/// How work in another thread ended.
struct WatchedWork {
  std::atomic<bool> done{false};
  std::exception_ptr failure;
  std::vector<std::string> messages; ///< of an AgreedError, which each thread counts for itself
  bool by_system = false;
  LossWatch::Together together;

  void run(const std::function<void()>& work) {
    try {
      work();
    } catch (const AgreedError& error) {
      messages = error.messages();
      by_system = error.bySystem();
    } catch (...) {
      failure = std::current_exception();
    }
    done = true;
  }
};

} // namespace

void doWatched(const std::string& path, std::int64_t patience, bool threaded,
               const std::function<void()>& work) {
  BackgroundThread thread(threaded);
  const auto watched = std::make_shared<WatchedWork>();
  thread.submit([watched, work] { watched->run(work); });
  WriteWatch watch(path + ".partial", patience);
  while (!watched->done) {
    idleBriefly();
    if (watch.stalled())
      throw RunError(path + ": was not written within " + std::to_string(patience) + " s (run/watchdog)");
  }
  thread.finish();
  if (!watched->messages.empty()) throw AgreedError(watched->messages, watched->by_system);
  if (watched->failure != nullptr) std::rethrow_exception(watched->failure);
}

} // namespace partita
