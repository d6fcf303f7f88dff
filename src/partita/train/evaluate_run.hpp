#pragma once

#include "partita/comm/mpi.hpp"

#include <string>
#include <vector>

namespace partita {

/// Evaluates the parameters of a run directory, or a parameter file, on the test set of its deck (changed by
/// `overrides`) and prints the accuracy of each stage and of the joined network. `predictions` names a .npz
/// file for the network's output for each sample; empty: none. Collective.
void evaluateRun(const Communicator& world, const std::string& path,
                 const std::vector<std::string>& overrides, const std::string& predictions,
                 const std::string& command_line);

} // namespace partita
