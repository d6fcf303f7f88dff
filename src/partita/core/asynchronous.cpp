#include "partita/core/asynchronous.hpp"

#include "partita/core/gpu.hpp"

#include <algorithm>
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
/// The cores given to the process, read before an OpenMP runtime binds the first thread to one of them:
/// see `useAllCores`.
cpu_set_t coresAtStart() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  return cores;
}
const cpu_set_t cores_at_start = coresAtStart();
#endif

} // namespace

void useAllCores() {
#ifdef __linux__
  if (CPU_COUNT(&cores_at_start) > 0) sched_setaffinity(0, sizeof cores_at_start, &cores_at_start);
#endif
}

struct BackgroundThread::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> jobs;
  bool stop = false;
};

namespace {

/// Makes the device of this thread that of another thread, where it is called. New threads begin with device
/// 0, which an MPI library would then take for theirs.
std::function<void()> deviceOfThread() {
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)
  int device = 0;
  checkGpu(PARTITA_GPU(GetDevice)(&device));
  return [device] { checkGpu(PARTITA_GPU(SetDevice)(device)); };
#else
  return [] {};
#endif
}

} // namespace

BackgroundThread::BackgroundThread(bool threaded) : _queue(std::make_shared<Queue>()) {
  if (!threaded) return;
  _thread = std::thread([queue = _queue, use_device = deviceOfThread()] {
    use_device();
    work(queue);
  });
}

BackgroundThread::~BackgroundThread() {
  if (_thread.joinable() && std::uncaught_exceptions() > 0)
    _thread.detach();
  else
    finish();
}

void BackgroundThread::finish() {
  if (!_thread.joinable()) return;
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

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)

namespace {

std::shared_ptr<void> makeStream() {
  PARTITA_GPU(Stream_t) stream = nullptr;
  checkGpu(PARTITA_GPU(StreamCreateWithFlags)(&stream, PARTITA_GPU(StreamNonBlocking)));
  return {stream,
          [](void* made) { (void)PARTITA_GPU(StreamDestroy)(static_cast<PARTITA_GPU(Stream_t)>(made)); }};
}

} // namespace

CopyStream::CopyStream(bool)
    : _stream(makeStream()), _space(static_cast<PARTITA_GPU(Stream_t)>(_stream.get())), _thread(false) {}

struct Event::Point {
  Point() { checkGpu(PARTITA_GPU(EventCreateWithFlags)(&event, PARTITA_GPU(EventDisableTiming))); }
  ~Point() { (void)PARTITA_GPU(EventDestroy)(event); }
  Point(const Point&) = delete;
  Point& operator=(const Point&) = delete;
  PARTITA_GPU(Event_t) event = nullptr;
};

void Event::set(const ExecSpace& space) const {
  checkGpu(PARTITA_GPU(EventRecord)(_point->event, streamOf(space)));
}
void Event::holdBack(const ExecSpace& space) const {
  checkGpu(PARTITA_GPU(StreamWaitEvent)(streamOf(space), _point->event, 0));
}
void Event::set(CopyStream& copy_stream) const {
  set(copy_stream._space);
}
void Event::holdBack(CopyStream& copy_stream) const {
  holdBack(copy_stream._space);
}
bool Event::reached() const {
  const PARTITA_GPU(Error_t) status = PARTITA_GPU(EventQuery)(_point->event);
  if (status != PARTITA_GPU(ErrorNotReady)) {
    checkGpu(status);
    return true;
  }
  (void)PARTITA_GPU(GetLastError)(); // Kokkos would find "not ready" there
  return false;
}
void Event::wait() const {
  checkGpu(PARTITA_GPU(EventSynchronize)(_point->event));
}

#else // kernels are complete on return; copy streams lag behind and copy in order

CopyStream::CopyStream(bool from_disk) : _thread(from_disk) {}

struct Event::Point {
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t asked = 0, reached = 0; ///< how often it was set, and how many of these were reached

  std::int64_t ask() {
    const std::lock_guard<std::mutex> lock(mutex);
    return ++asked;
  }
  std::int64_t lastAsked() {
    const std::lock_guard<std::mutex> lock(mutex);
    return asked;
  }
  void reach(std::int64_t number) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      reached = std::max(reached, number); // a stream with a thread may come later
    }
    changed.notify_all();
  }
  bool hasReached() {
    const std::lock_guard<std::mutex> lock(mutex);
    return reached >= asked;
  }
  void waitFor(std::int64_t number) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return reached >= number; });
  }
};

void Event::set(const ExecSpace&) const {
  _point->reach(_point->ask());
}
void Event::holdBack(const ExecSpace&) const {
  _point->waitFor(_point->lastAsked());
}
void Event::set(CopyStream& copy_stream) const {
  copy_stream._thread.submit([point = _point, number = _point->ask()] { point->reach(number); });
}
void Event::holdBack(CopyStream& copy_stream) const {
  copy_stream._thread.submit([point = _point, number = _point->lastAsked()] { point->waitFor(number); });
}
bool Event::reached() const {
  return _point->hasReached();
}
void Event::wait() const {
  _point->waitFor(_point->lastAsked());
}

#endif

Event::Event() : _point(std::make_shared<Point>()) {}

namespace {

/// The same memory, without a share in it: where Serial is the only back end, some versions of Kokkos count
/// references to views and execution spaces without atomics, and two threads would lose some.
Vector unmanaged(const Vector& values) {
  return Vector(values.data(), values.size());
}

} // namespace

CopyStream::~CopyStream() {
  _thread.finish();
}

void CopyStream::load(const StoredVector& from, std::int64_t begin, const Vector& to) {
  _thread.submit([&space = _space, from, begin, out = unmanaged(to)] { from.load(space, begin, out); });
}

void CopyStream::save(const Vector& from, const StoredVector& to, std::int64_t begin) {
  _thread.submit([&space = _space, in = unmanaged(from), to, begin] { to.save(space, begin, in); });
}

} // namespace partita
