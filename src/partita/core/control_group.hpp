#pragma once

#include <string>

namespace partita {

/// What a batch system or a container gives this process by control groups of Linux, version 1 or 2: the
/// least on the path from its own group to the topmost one. Infinite without a limit. `root`: the folder with
/// `proc` and `sys`; another one in tests.

/// Bytes, without subtracting usage, which may include page cache that is reclaimable.
double memoryOfGroup(const std::string& root = "");

/// Processor time in seconds per second. A process may run on more cores than that, but is then stopped for
/// the rest of each period.
double coresOfGroup(const std::string& root = "");

} // namespace partita
