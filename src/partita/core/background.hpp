#pragma once

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

} // namespace partita
