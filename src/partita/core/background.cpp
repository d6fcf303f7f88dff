#include "partita/core/background.hpp"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>

#ifdef __linux__
#include <sched.h>
#endif

namespace partita {

namespace {

#ifdef __linux__
/// The cores that the process was given, before an OpenMP runtime has bound its first thread to one of them:
/// a thread made later would have to share that one.
cpu_set_t coresAtStart() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  return cores;
}
const cpu_set_t cores_at_start = coresAtStart();

void useAllCores() {
  if (CPU_COUNT(&cores_at_start) > 0) sched_setaffinity(0, sizeof cores_at_start, &cores_at_start);
}
#else
void useAllCores() {}
#endif

} // namespace

struct BackgroundThread::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> jobs;
  bool stop = false;
};

BackgroundThread::BackgroundThread(bool threaded) : _queue(std::make_shared<Queue>()) {
  if (threaded) _thread = std::thread([queue = _queue] { work(queue); });
}

BackgroundThread::~BackgroundThread() {
  if (!_thread.joinable()) return;
  if (std::uncaught_exceptions() > 0) {
    _thread.detach();
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(_queue->mutex);
    _queue->stop = true;
  }
  _queue->changed.notify_all();
  _thread.join();
}

void BackgroundThread::submit(std::function<void()> job) {
  if (!_thread.joinable()) {
    job();
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(_queue->mutex);
    _queue->jobs.push_back(std::move(job));
  }
  _queue->changed.notify_all();
}

void BackgroundThread::work(const std::shared_ptr<Queue>& queue) {
  useAllCores();
  std::unique_lock<std::mutex> lock(queue->mutex);
  for (;;) {
    queue->changed.wait(lock, [&] { return queue->stop || !queue->jobs.empty(); });
    if (queue->jobs.empty()) return;
    {
      const std::function<void()> job = std::move(queue->jobs.front());
      queue->jobs.pop_front();
      lock.unlock();
      job();
    }
    lock.lock();
  }
}

} // namespace partita
