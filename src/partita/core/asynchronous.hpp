#pragma once

#include "partita/core/stored_vector.hpp"

#include <functional>
#include <memory>
#include <thread>

namespace partita {

/// A thread that does jobs one after another; jobs do not throw, and own what they use. Without a thread
/// (`threaded` false) each job is done where it is handed in.
class BackgroundThread {
 public:
  explicit BackgroundThread(bool threaded);
  /// Waits for the jobs, except while an exception is on its way: then the job under way may wait for other
  /// ranks for ever, and is left alone until the process ends.
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  void submit(std::function<void()> job);

 private:
  struct Queue;
  static void work(const std::shared_ptr<Queue>& queue);

  std::shared_ptr<Queue> _queue;
  std::thread _thread;
};

/// Copies beside the work of an execution space: on a GPU a stream of its own, which does not wait for the
/// default one (those of Kokkos do). On a host a thread, where copies may wait for a disk (`from_disk`); else
/// they are done where they are handed in.
class CopyStream {
 public:
  explicit CopyStream(bool from_disk);

  void load(const StoredVector& from, std::int64_t begin, const Vector& to);
  void save(const Vector& from, const StoredVector& to, std::int64_t begin);

 private:
  friend class Event;
  std::shared_ptr<void> _stream; ///< goes behind the instance
  ExecSpace _space;
  BackgroundThread _thread; ///< of a host
};

/// A point in the work of a copy stream or an execution space that another one waits for: on a GPU without
/// the host waiting, on a host with the calling thread. An event that was never set holds nobody back.
class Event {
 public:
  Event();
  void set(const ExecSpace& space) const; ///< behind all that `space` has got so far
  void set(CopyStream& copy_stream) const;
  void holdBack(const ExecSpace& space) const; ///< what `space` gets from now on waits for the event
  void holdBack(CopyStream& copy_stream) const;

 private:
  struct Point;
  std::shared_ptr<Point> _point;
};

} // namespace partita
