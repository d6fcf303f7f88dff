#include "partita/core/background.hpp"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>

namespace partita {

struct BackgroundThread::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> jobs;
  bool busy = false, stop = false;
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

bool BackgroundThread::idle() const {
  const std::lock_guard<std::mutex> lock(_queue->mutex);
  return _queue->jobs.empty() && !_queue->busy;
}

void BackgroundThread::work(const std::shared_ptr<Queue>& queue) {
  std::unique_lock<std::mutex> lock(queue->mutex);
  for (;;) {
    queue->changed.wait(lock, [&] { return queue->stop || !queue->jobs.empty(); });
    if (queue->jobs.empty()) return;
    {
      const std::function<void()> job = std::move(queue->jobs.front());
      queue->jobs.pop_front();
      queue->busy = true;
      lock.unlock();
      job();
    }
    lock.lock();
    queue->busy = false;
  }
}

} // namespace partita
