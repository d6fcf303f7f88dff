#pragma once

#include "partita/comm/mpi.hpp"

#include <string>
#include <vector>

namespace partita {

/// What to evaluate.
struct EvaluationRequest {
  std::string path;                   ///< run directory or parameter file
  std::vector<std::string> overrides; ///< changes of its deck
  std::string predictions;            ///< .npz file for the network's output for each sample; empty: none
  bool overwrite = false;             ///< may it replace any file?
  int stages = 0;                     ///< the network ends after this many stages; 0: after all
};

/// Evaluates trained parameters on the test set of their deck and prints the accuracy of each stage and of
/// the joined network. Collective. Throws UserError if the network cannot end after the given number of
/// stages.
void evaluateRun(const Communicator& world, const EvaluationRequest& request,
                 const std::string& command_line);

} // namespace partita
