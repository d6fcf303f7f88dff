#pragma once

#include <string>

namespace partita {

/// Bytes that this process can still take: what the machine has free, and what limits of its container
/// (cgroup v1, v2) and of itself (RLIMIT_AS) leave. Infinite where the system does not say.
double availableMemory();

/// Throws UserError "WHAT: needs 1.05 PB of memory, 12.3 GB are free" where so many bytes cannot be had:
/// better told before than by the system, which ends whatever it likes.
void requireMemory(double bytes, const std::string& what);

} // namespace partita
