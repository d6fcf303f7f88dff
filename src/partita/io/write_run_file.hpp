#pragma once

#include "partita/io/run_file.hpp"

namespace partita {

/// Writes one file from all ranks of `comm`: each rank contributes its parts of tensors. Synchronises the
/// file to disk, then marks it complete. `compression` 0..9 is the level of deflate; 0 uses parallel HDF5.
/// Collective; may be called from a thread other than the main one if MPI allows it. If the file cannot be
/// written, throws the same AgreedError on every rank and leaves no file behind; a rank of several that fails
/// where the others may wait for it inside HDF5 ends the job instead (see NewRunFile).
void writeRunFile(const Communicator& comm, const std::string& path, const RunFileContent& content,
                  int compression);

} // namespace partita
