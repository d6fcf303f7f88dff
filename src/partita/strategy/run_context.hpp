#pragma once

#include "partita/data/dataset.hpp"
#include "partita/strategy/local_stage.hpp"
#include "partita/strategy/observer.hpp"

#include <string>

namespace partita {

/// What every strategy works on: the deck, this rank's place and stages, the data, and who listens.
struct RunContext {
  const RunConfig& config;
  const Partition& partition;
  Grid& grid;
  const DataSets& sets;
  const std::vector<std::unique_ptr<LocalStage>>& stages; ///< of this rank
  Observer& observer;
  std::string scratch_directory; ///< for files that vanish with the run

  std::uint64_t seed() const { return static_cast<std::uint64_t>(config.run.seed); }
};

/// Seconds of a run by the clock of this rank.
struct RunTimes {
  double training = 0.0; ///< until every stage is done, evaluations left out
  double evaluation = 0.0;
};

} // namespace partita
