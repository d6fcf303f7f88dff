#include "partita/core/memory.hpp"

#include "partita/core/types.hpp"

#include <atomic>
#include <cstring>
#include <sys/resource.h>

namespace partita {

namespace {

namespace tools = Kokkos::Tools::Experimental;
using Handle = Kokkos::Profiling::SpaceHandle;

std::atomic<std::int64_t> live{0}, peak{0}, allocations{0}, foreign{0};
tools::EventSet previous{};

/// Staging buffers on the host do not count as device memory.
std::int64_t bytesOfDevice(const Handle& space, std::uint64_t size) {
  return std::strcmp(space.name, MemSpace::name()) == 0 ? size : 0;
}

bool startsWith(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

void onAllocate(Handle space, const char* label, const void* pointer, std::uint64_t size) {
  const std::int64_t now = live += bytesOfDevice(space, size);
  std::int64_t top = peak;
  while (now > top && !peak.compare_exchange_weak(top, now)) {
  }
  if (size > 0) ++allocations; // Kokkos 4.6 asks for scratch memory of no bytes at each launch of a team
  if (!startsWith(label, "partita::") && !startsWith(label, "Kokkos::")) ++foreign;
  if (previous.allocate_data != nullptr) previous.allocate_data(space, label, pointer, size);
}

void onDeallocate(Handle space, const char* label, const void* pointer, std::uint64_t size) {
  live -= bytesOfDevice(space, size);
  if (previous.deallocate_data != nullptr) previous.deallocate_data(space, label, pointer, size);
}

} // namespace

void AllocationCounter::start() {
  static bool started = false;
  if (started) return;
  started = true;
  previous = tools::get_callbacks();
  tools::set_allocate_data_callback(onAllocate);
  tools::set_deallocate_data_callback(onDeallocate);
}

std::int64_t AllocationCounter::liveBytes() {
  return live;
}
std::int64_t AllocationCounter::peakBytes() {
  return peak;
}
void AllocationCounter::restartPeak() {
  peak = live.load();
}
std::int64_t AllocationCounter::count() {
  return allocations;
}
std::int64_t AllocationCounter::foreignLabels() {
  return foreign;
}

std::int64_t peakResidentBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024; // Linux counts KiB
}

} // namespace partita
