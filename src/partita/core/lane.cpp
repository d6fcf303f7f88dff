#include "partita/core/lane.hpp"

#include "partita/core/error.hpp"

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

std::shared_ptr<void> makeEvent() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return {event, [](void* made) { cudaEventDestroy(static_cast<cudaEvent_t>(made)); }};
}

} // namespace

Lane::Lane() : _stream(makeStream()), _space(static_cast<cudaStream_t>(_stream.get())) {}
Mark::Mark() : _event(makeEvent()) {}

void Mark::set(const ExecSpace& space) const {
  check(cudaEventRecord(static_cast<cudaEvent_t>(_event.get()), space.cuda_stream()));
}

void Mark::holdBack(const ExecSpace& space) const {
  check(cudaStreamWaitEvent(space.cuda_stream(), static_cast<cudaEvent_t>(_event.get()), 0));
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

std::shared_ptr<void> makeEvent() {
  hipEvent_t event = nullptr;
  check(hipEventCreateWithFlags(&event, hipEventDisableTiming));
  return {event, [](void* made) { (void)hipEventDestroy(static_cast<hipEvent_t>(made)); }};
}

} // namespace

Lane::Lane() : _stream(makeStream()), _space(static_cast<hipStream_t>(_stream.get())) {}
Mark::Mark() : _event(makeEvent()) {}

void Mark::set(const ExecSpace& space) const {
  check(hipEventRecord(static_cast<hipEvent_t>(_event.get()), space.hip_stream()));
}

void Mark::holdBack(const ExecSpace& space) const {
  check(hipStreamWaitEvent(space.hip_stream(), static_cast<hipEvent_t>(_event.get()), 0));
}

#else // one instance, whose work is done in order

Lane::Lane() = default;
Mark::Mark() = default;
void Mark::set(const ExecSpace&) const {}
void Mark::holdBack(const ExecSpace&) const {}

#endif

} // namespace partita
