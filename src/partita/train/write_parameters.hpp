#pragma once

#include "partita/io/run_file.hpp"
#include "partita/train/setup.hpp"

#include <string>

namespace partita {

/// Writes `PATH.partial`: like a checkpoint, with parameters and statistics alone. Collective; throws
/// AgreedError if the file cannot be written, and RunError if the writing hangs.
void writeParameters(const std::string& path, const RunFacts& facts, const Setup& setup);

} // namespace partita
