#include "partita/core/available_memory.hpp"

#include "partita/config/user_error.hpp"
#include "partita/core/control_group.hpp"
#include "partita/core/log.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sys/resource.h>
#include <unistd.h>

namespace partita {

namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

/// Memory that /proc/meminfo reports as available, plus free swap.
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

double ownLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  std::ifstream file("/proc/self/statm");
  double pages = 0.0;
  file >> pages;
  return static_cast<double>(limit.rlim_cur) - static_cast<double>(sysconf(_SC_PAGESIZE)) * pages;
}

} // namespace

double availableOnNode() {
  return std::min(machineMemory(), memoryOfGroup());
}

double availableMemory() {
  return std::min(availableOnNode(), ownLimit());
}

void requireMemory(double bytes, const std::string& what) {
  constexpr double always_there = 64e6; // not worth checking
  if (bytes < always_there) return;
  const double available = availableMemory();
  if (bytes > available)
    throw UserError(what + ": needs " + formatBytes(bytes) + " of memory, but only " +
                    formatBytes(available) + " is free");
}

} // namespace partita
