#include "partita/core/lane.hpp"

#include "partita/core/error.hpp"

#include <condition_variable>
#include <mutex>

namespace partita {

#if defined(KOKKOS_ENABLE_CUDA)

namespace {

void check(cudaError_t code) {
  PARTITA_REQUIRE(code == cudaSuccess, cudaGetErrorString(code));
}

std::shared_ptr<void> makeStream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return {stream, [](void* made) { cudaStreamDestroy(static_cast<cudaStream_t>(made)); }};
}

} // namespace

Lane::Lane(bool) : _stream(makeStream()), _space(static_cast<cudaStream_t>(_stream.get())), _thread(false) {}

struct Mark::Point {
  Point() { check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)); }
  ~Point() { cudaEventDestroy(event); }
  Point(const Point&) = delete;
  Point& operator=(const Point&) = delete;
  cudaEvent_t event = nullptr;
};

void Mark::set(const ExecSpace& space) const {
  check(cudaEventRecord(_point->event, space.cuda_stream()));
}
void Mark::holdBack(const ExecSpace& space) const {
  check(cudaStreamWaitEvent(space.cuda_stream(), _point->event, 0));
}
void Mark::set(Lane& lane) const {
  set(lane._space);
}
void Mark::holdBack(Lane& lane) const {
  holdBack(lane._space);
}

#elif defined(KOKKOS_ENABLE_HIP)

namespace {

void check(hipError_t code) {
  PARTITA_REQUIRE(code == hipSuccess, hipGetErrorString(code));
}

std::shared_ptr<void> makeStream() {
  hipStream_t stream = nullptr;
  check(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  return {stream, [](void* made) { (void)hipStreamDestroy(static_cast<hipStream_t>(made)); }};
}

} // namespace

Lane::Lane(bool) : _stream(makeStream()), _space(static_cast<hipStream_t>(_stream.get())), _thread(false) {}

struct Mark::Point {
  Point() { check(hipEventCreateWithFlags(&event, hipEventDisableTiming)); }
  ~Point() { (void)hipEventDestroy(event); }
  Point(const Point&) = delete;
  Point& operator=(const Point&) = delete;
  hipEvent_t event = nullptr;
};

void Mark::set(const ExecSpace& space) const {
  check(hipEventRecord(_point->event, space.hip_stream()));
}
void Mark::holdBack(const ExecSpace& space) const {
  check(hipStreamWaitEvent(space.hip_stream(), _point->event, 0));
}
void Mark::set(Lane& lane) const {
  set(lane._space);
}
void Mark::holdBack(Lane& lane) const {
  holdBack(lane._space);
}

#else // kernels are done when they have been handed in; lanes are behind, and do their copies in order

Lane::Lane(bool from_disk) : _thread(from_disk) {}

struct Mark::Point {
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t asked = 0, reached = 0; ///< how often it was set, and how many of these have come about

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
      reached = number;
    }
    changed.notify_all();
  }
  void waitFor(std::int64_t number) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return reached >= number; });
  }
};

void Mark::set(const ExecSpace&) const {
  _point->reach(_point->ask());
}
void Mark::holdBack(const ExecSpace&) const {
  _point->waitFor(_point->lastAsked());
}
void Mark::set(Lane& lane) const {
  lane._thread.submit([point = _point, number = _point->ask()] { point->reach(number); });
}
void Mark::holdBack(Lane& lane) const {
  lane._thread.submit([point = _point, number = _point->lastAsked()] { point->waitFor(number); });
}

#endif

Mark::Mark() : _point(std::make_shared<Point>()) {}

void Lane::load(const StoredVector& from, std::int64_t begin, const Vector& to) {
  _thread.submit([space = _space, from, begin, to] { from.load(space, begin, to); });
}

void Lane::save(const Vector& from, const StoredVector& to, std::int64_t begin) {
  _thread.submit([space = _space, from, to, begin] { to.save(space, begin, from); });
}

} // namespace partita
