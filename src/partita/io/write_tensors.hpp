#pragma once

#include "partita/io/new_run_file.hpp"

namespace partita {

/// Writes the tensors that this rank has into a file that all have open, each rank by itself: nobody waits.
/// Returns the checksum of each, 0 for those of other ranks. Throws UserError where a write fails or a value
/// is not finite.
std::vector<double> writeTensors(const NewRunFile& file, const RunFileContent& content);

} // namespace partita
