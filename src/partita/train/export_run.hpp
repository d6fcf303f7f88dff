#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/io/joined_network.hpp"

namespace partita {

/// Reads the joined network of a parameter file or checkpoint into the memory of this rank. Throws UserError
/// if the file is damaged or does not fit its own deck.
JoinedNetwork joinedNetwork(const std::string& path);

/// Writes the joined network of a run directory or parameter file to `output`, as ONNX if its name ends in
/// .onnx and as .npz otherwise; rank 0 does the work. Collective. Throws UserError on every rank if that
/// fails.
void exportRun(const Communicator& world, const std::string& path, const std::string& output,
               const std::string& command_line);

} // namespace partita
