#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/io/joined_network.hpp"

namespace partita {

/// Reads the joined network of a parameter file or checkpoint into the memory of this rank. It ends after
/// `stages` stages; 0: after all. Throws UserError if the file is damaged or does not fit its own deck, or if
/// the network cannot end there.
JoinedNetwork joinedNetwork(const std::string& path, int stages = 0);

/// Writes the joined network of a run directory or parameter file to `output`, as ONNX if its name ends in
/// .onnx and as .npz otherwise; rank 0 does the work. `stages` as above. With `overwrite`, an existing file
/// is replaced whatever it is. Collective. Throws UserError on every rank if that fails.
void exportRun(const Communicator& world, const std::string& path, const std::string& output, int stages,
               bool overwrite, const std::string& command_line);

} // namespace partita
