#pragma once

#include <string>

namespace partita {

/// Bytes that all processes of this node together can still take: what the machine has free, at most the
/// limit of the control group (v1, v2), of which nothing is taken as used. Infinite where the system does not
/// say.
double availableOnNode();
/// The same for this process, which may have a limit of its own (RLIMIT_AS).
double availableMemory();

/// Throws UserError "WHAT: needs 1.05 PB of memory, 12.3 GB is free" where so many bytes cannot be had:
/// better told before than by the system, which ends whatever it likes.
void requireMemory(double bytes, const std::string& what);

} // namespace partita
