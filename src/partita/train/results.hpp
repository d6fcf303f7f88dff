#pragma once

#include "partita/comm/rank_places.hpp"
#include "partita/core/provenance.hpp"
#include "partita/io/run_file.hpp"
#include "partita/strategy/evaluation.hpp"
#include "partita/strategy/run_context.hpp"
#include "partita/train/forecast.hpp"
#include "partita/train/monitor.hpp"
#include "partita/train/run_directory.hpp"
#include "partita/train/setup.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace partita {

/// What `summary.json` says of a finished run, besides counters.
struct Summary {
  Evaluation evaluation; ///< on the test set
  std::string parameters_hash;
  RunTimes times;
  RunLength length;
  Provenance provenance;
  std::map<Precision, double> product_rates;   ///< see Banner
  std::vector<RankPlace> places;               ///< by rank, on rank 0
  std::optional<StepCost> predicted, measured; ///< of a step, with `run/cluster`
  std::shared_ptr<const RunForecast> forecast; ///< the same for ranks that are not in step; null: none
};

/// Writes `parameters.h5` of a finished run, completes its history and writes `summary.json` in its
/// directory, if there is one, and prints the result. Collective; throws AgreedError if a file cannot be
/// written, and RunError if the writing of `parameters.h5` hangs.
void writeResults(const Summary& summary, const RunFacts& facts, const Setup& setup, Monitor& monitor,
                  const RunDirectory& directory);

} // namespace partita
