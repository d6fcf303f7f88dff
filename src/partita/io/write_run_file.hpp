#pragma once

#include "partita/io/new_run_file.hpp"
#include "partita/io/run_file.hpp"

namespace partita {

/// Writes the tensors that this rank has into a file that all have open, each rank by itself: nobody waits.
/// Returns the checksum of each, 0 for those of other ranks. Throws UserError where a write fails or a value
/// is not finite.
std::vector<double> writeTensors(const NewRunFile& file, const RunFileContent& content);

/// Writes one file with all ranks of `comm` through parallel HDF5, each the tensors it has values of, checks
/// that it is on the disk, and marks it complete. `compression` 0..9 is the level of deflate. Collective;
/// may be called from a thread other than the main one, where MPI allows that. Throws the same AgreedError on
/// every rank where the file cannot be written, and leaves none behind then.
void writeRunFile(const Communicator& comm, const std::string& path, const RunFileContent& content,
                  int compression);

} // namespace partita
