#include "partita/core/memory.hpp"

#include "partita/core/types.hpp"

#include <atomic>
#include <cstring>
#include <memory>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

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

/// Asks for huge pages for an array on the host that nobody has written to yet. A processor
/// knows the addresses of a few thousand pages at a time, and with pages of 4 KiB these are only some MiB. If
/// the setting of Linux is `madvise`, only programs that ask get larger pages. As in NumPy, arrays of less
/// than 4 MiB do not count.
void useHugePages(const void* pointer, std::uint64_t size) {
#ifdef MADV_HUGEPAGE
  constexpr std::uint64_t least = std::uint64_t{4} << 20;
  if (size < least) return;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* first = const_cast<void*>(pointer); // Kokkos reports memory that is about to be written
  std::size_t bytes = size;
  if (std::align(page, page, first, bytes) == nullptr) return;
  madvise(first, bytes / page * page, MADV_HUGEPAGE); // a refusal costs nothing
#endif
}

bool onHost(const Handle& space) {
  return std::strcmp(space.name, Kokkos::HostSpace::name()) == 0;
}

void onAllocate(Handle space, const char* label, const void* pointer, std::uint64_t size) {
  const std::int64_t now = live += bytesOfDevice(space, size);
  std::int64_t top = peak;
  while (now > top && !peak.compare_exchange_weak(top, now)) {
  }
  if (onHost(space)) useHugePages(pointer, size);
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
