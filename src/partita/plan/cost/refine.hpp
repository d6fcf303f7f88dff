#pragma once

#include "partita/plan/cost/cost_model.hpp"

#include <string>
#include <vector>

namespace partita {

/// What a finished run has measured, in a step.
struct RunEvidence {
  CostTask task;        ///< its timing is not used
  ProgramRun run;       ///< its plan
  double compute = 0.0; ///< seconds in which the rank that waits least does not wait
  double sums = 0.0;    ///< seconds in which this rank waits for sums of gradients or parameters
};

/// Changes a description so that its predictions agree with runs: the seconds per sample of each network, the
/// part of messages that computing hides where ranks have waited longer for sums than predicted, and the
/// times of messages where they have waited less. Where runs disagree, the median counts. Returns what has
/// changed, a line each.
std::vector<std::string> refine(Cluster& cluster, const std::vector<RunEvidence>& runs);

} // namespace partita
