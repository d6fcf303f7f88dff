#pragma once

#include "partita/core/stored_vector.hpp"

#include <functional>
#include <memory>
#include <thread>

namespace partita {

/// Lets the calling thread run on all cores of the process. Otherwise a thread that is created
/// after those of an OpenMP runtime would be confined to the core of the first of them.
void useAllCores();

/// A thread that executes jobs one after another. Jobs do not throw. They own what they use, or the owner of
/// the thread calls `finish` while that still exists. Without a thread (`threaded` false) each job is
/// executed on submission.
class BackgroundThread {
 public:
  explicit BackgroundThread(bool threaded);
  /// Waits for the jobs, except during stack unwinding: the current job may then wait forever for other
  /// ranks, so the thread is left alone until the process ends.
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  void submit(std::function<void()> job);
  void finish(); ///< waits for the jobs, also during stack unwinding; afterwards there is no thread

 private:
  struct Queue;
  static void work(const std::shared_ptr<Queue>& queue);

  std::shared_ptr<Queue> _queue;
  std::thread _thread;
};

/// Copies and messages that overlap the work of an execution space. On a GPU they use a separate stream that
/// does not synchronise with the default one (those of Kokkos do). On a host they use a thread if copies may
/// wait for a disk (`from_disk`), and are otherwise executed on submission.
class CopyStream {
 public:
  explicit CopyStream(bool from_disk);
  ~CopyStream(); ///< waits for copies of a thread
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  /// The buffers and the stored vectors must stay until the copies are complete.
  void load(const StoredVector& from, std::int64_t begin, const Vector& to);
  void save(const Vector& from, const StoredVector& to, std::int64_t begin);
  const ExecSpace& space() const { return _space; } ///< on a GPU: of its stream

 private:
  friend class Event;
  std::shared_ptr<void> _stream; ///< destroyed after the instance
  ExecSpace _space;
  BackgroundThread _thread; ///< on a host
};

/// A point in the work of a copy stream or an execution space that another one waits for: on a GPU without
/// blocking the host, on a host by blocking the calling thread. Waiting for an event that was never set does
/// not block.
class Event {
 public:
  Event();
  void set(const ExecSpace& space) const; ///< after all work submitted to `space` so far
  void set(CopyStream& copy_stream) const;
  void holdBack(const ExecSpace& space) const; ///< work submitted to `space` from now on waits for the event
  void holdBack(CopyStream& copy_stream) const;
  bool reached() const; ///< is the work before it complete, where it was set last?
  void wait() const;    ///< blocks the host until then

 private:
  struct Point;
  std::shared_ptr<Point> _point;
};

} // namespace partita
