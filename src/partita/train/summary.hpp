#pragma once

#include "partita/comm/grid.hpp"
#include "partita/core/provenance.hpp"
#include "partita/strategy/evaluation.hpp"
#include "partita/strategy/run_context.hpp"
#include "partita/strategy/stage_updater.hpp"

namespace partita {

/// The results of a run.
struct Summary {
  Evaluation evaluation; ///< on the test set
  std::string parameters_hash;
  RunTimes times;
  RunLength length;
  Provenance provenance;
};

/// Gathers the counters of all ranks, prints the result and writes `path` (empty: no file). `deck` is the
/// effective one. Collective; throws AgreedError if the file cannot be written.
void finishSummary(const Summary& summary, const RunConfig& deck, const Partition& partition,
                   const Grid& grid, const std::string& path);

} // namespace partita
