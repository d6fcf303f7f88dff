#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace partita {

/// What a batch system or a container gives this process by control groups of Linux, version 1 or 2: the
/// smallest limit on the path from its own group to the topmost one; infinite if there is none. `root`: the
/// folder with `proc` and `sys`; another one in tests.

/// Bytes, without subtracting usage, which may include page cache that is reclaimable.
double memoryOfGroup(const std::string& root = "");

/// Processor time in seconds per second, which all processes of a group share. They may run on more cores
/// than that, but are then stopped for the rest of each period.
struct CoreQuota {
  double cores = std::numeric_limits<double>::infinity();
  /// Identify the folder of the group on this machine, whatever its name in a container; 0 without a limit.
  std::uint64_t device = 0, file = 0;

  bool limits() const { return cores < std::numeric_limits<double>::infinity(); }
  bool isOf(const CoreQuota& other) const { return device == other.device && file == other.file; }
};
CoreQuota coresOfGroup(const std::string& root = "");

} // namespace partita
