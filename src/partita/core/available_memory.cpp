#include "partita/core/available_memory.hpp"

#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sys/resource.h>
#include <unistd.h>

namespace partita {

namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

/// The first number in a file; infinite if there is none ("max").
double numberIn(const std::string& path) {
  double value = unlimited;
  std::ifstream file(path);
  return file >> value ? value : unlimited;
}

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

/// The smallest limit on the path from this process's control group to the root of `mount`.
double limitsUpFrom(const std::string& mount, std::string group, const std::string& file) {
  double least = numberIn(mount + "/" + file);
  for (; group.size() > 1; group.resize(group.rfind('/')))
    least = std::min(least, numberIn(mount + group + "/" + file));
  return least;
}

/// The limit itself, without subtracting usage, which may include page cache that is reclaimable.
double containerMemory() {
  double least = std::min(numberIn("/sys/fs/cgroup/memory.max"),
                          numberIn("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) { // "0::/a/b", or "4:memory:/a/b"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      group = line.substr(second + 1);
    if (controllers.empty()) least = std::min(least, limitsUpFrom("/sys/fs/cgroup", group, "memory.max"));
    if (controllers == "memory")
      least = std::min(least, limitsUpFrom("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
  }
  return least;
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
  return std::min(machineMemory(), containerMemory());
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
