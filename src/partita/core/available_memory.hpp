#pragma once

#include <string>

namespace partita {

/// Bytes that all processes on this node together can still allocate: the free memory of the machine, at most
/// the limit of the control group (v1, v2), from which current usage is not subtracted. Infinite if the
/// system does not report it.
double availableOnNode();
/// The same for this process, which may have its own limit (RLIMIT_AS).
double availableMemory();

/// Throws UserError "WHAT: needs 1.05 PB of memory, but only 12.3 GB is free" if that many bytes are not
/// available. Failing early is better than leaving it to the system, which may kill any process.
void requireMemory(double bytes, const std::string& what);

} // namespace partita
