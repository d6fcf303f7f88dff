#pragma once

#include <atomic>
#include <cstdint>

namespace partita {

/// Bytes of tensors in run files that this process has written so far, or sent to the rank that
/// writes them. A thread that waits for such a file can tell from this number whether the writing
/// thread makes progress.
inline std::atomic<std::int64_t> bytes_written{0};

} // namespace partita
