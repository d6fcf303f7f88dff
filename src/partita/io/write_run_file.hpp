#pragma once

#include "partita/io/run_file.hpp"

namespace partita {

/// Writes one file with all ranks of `comm` through parallel HDF5, each the tensors it has values of, checks
/// that it is on the disk, and marks it complete. `compression` 0..9 is the level of deflate. Collective;
/// may be called from a thread other than the main one, where MPI allows that. Throws the same AgreedError on
/// every rank where the file cannot be written, and leaves none behind then.
void writeRunFile(const Communicator& comm, const std::string& path, const RunFileContent& content,
                  int compression);

/// Gives a finished file its name, in one step that survives a crash of the machine.
void publishFile(const std::string& from, const std::string& to);
/// What was written to a file is on the disk when this returns. Throws UserError with the system's words.
void syncFile(const std::string& path);

} // namespace partita
