#include "partita/core/memory.hpp"

#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"
#include "partita/core/types.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <limits>
#include <sys/resource.h>
#include <unistd.h>

namespace partita {

namespace {

namespace tools = Kokkos::Tools::Experimental;
using Handle = Kokkos::Profiling::SpaceHandle;

std::atomic<std::int64_t> live{0}, peak{0}, allocations{0}, foreign{0};
tools::EventSet previous{};

/// Staging buffers on the host are not the device's memory.
std::int64_t bytesOfDevice(const Handle& space, std::uint64_t size) {
  return std::strcmp(space.name, MemSpace::name()) == 0 ? static_cast<std::int64_t>(size) : 0;
}

bool startsWith(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

void onAllocate(Handle space, const char* label, const void* pointer, std::uint64_t size) {
  const std::int64_t now = live += bytesOfDevice(space, size);
  std::int64_t top = peak;
  while (now > top && !peak.compare_exchange_weak(top, now)) {
  }
  ++allocations;
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

namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

/// The first number of a file; infinite where there is none ("max").
double numberIn(const char* path) {
  double value = unlimited;
  std::ifstream file(path);
  return file >> value ? value : unlimited;
}

/// What /proc/meminfo calls available, and what can be swapped.
double machineMemory() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  double kib = 0.0, total = 0.0;
  bool known = false;
  while (file >> name >> kib && std::getline(file, unit)) {
    if (name != "MemAvailable:" && name != "SwapFree:") continue;
    known = known || name == "MemAvailable:";
    total += 1024.0 * kib;
  }
  return known ? total : unlimited;
}

/// The limit itself: what counts as used may be files that were read, which make way.
double containerMemory() {
  return std::min(numberIn("/sys/fs/cgroup/memory.max"),
                  numberIn("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
}

double ownLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  std::ifstream file("/proc/self/statm");
  double pages = 0.0;
  file >> pages;
  return static_cast<double>(limit.rlim_cur) - static_cast<double>(sysconf(_SC_PAGESIZE)) * pages;
}

} // namespace

double availableMemory() {
  return std::min({machineMemory(), containerMemory(), ownLimit()});
}

void requireMemory(double bytes, const std::string& what) {
  constexpr double always_there = 64e6; // not worth a look
  if (bytes < always_there) return;
  const double available = availableMemory();
  if (bytes > available)
    throw UserError(what + ": needs " + formatBytes(bytes) + " of memory, " + formatBytes(available) +
                    " are free");
}

} // namespace partita
