#pragma once

#include "partita/io/run_file.hpp"

namespace partita {

/// Writes one file with all ranks of `comm` through parallel HDF5, each the parts of tensors that it has,
/// checks that it is on the disk, and marks it complete. `compression` 0..9 is the level of deflate.
/// Collective; may be called from a thread other than the main one, where MPI allows that. Throws the same
/// AgreedError on every rank where the file cannot be written, and leaves none behind then.
void writeRunFile(const Communicator& comm, const std::string& path, const RunFileContent& content,
                  int compression);

} // namespace partita
