#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/io/joined_network.hpp"

namespace partita {

/// The joined network of a parameter file or checkpoint, in the memory of this one rank. Throws UserError
/// where the file is damaged or does not fit its own deck.
JoinedNetwork joinedNetwork(const std::string& path);

/// Writes the joined network of a run directory or parameter file to `output`, as ONNX where its name ends in
/// .onnx and as .npz otherwise; rank 0 does it. Collective. Throws UserError on every rank where that cannot
/// be done.
void exportRun(const Communicator& world, const std::string& path, const std::string& output,
               const std::string& command_line);

} // namespace partita
