#pragma once

#include "partita/plan/cost/cost_model.hpp"

#include <string>
#include <vector>

namespace partita {

/// What a finished run has measured per step.
struct RunEvidence {
  CostTask task;        ///< its timing is not used
  ProgramRun run;       ///< its plan
  double compute = 0.0; ///< seconds of the rank that waits least, without its waits
  double sums = 0.0;    ///< seconds that this rank waits for sums of gradients or parameters
};

/// Changes a cluster so that its predictions agree with runs. It adapts the seconds per sample of
/// each network, and adds a row for one of other FLOPs or another precision. If ranks have waited longer for
/// sums than predicted, it adapts the fraction of messages that computing hides. If they have waited less, or
/// longer than the messages take, it adapts the times of messages. If runs disagree, the median counts.
/// Returns the changes, one per line.
std::vector<std::string> refine(Cluster& cluster, const std::vector<RunEvidence>& runs);

} // namespace partita
