#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/config/run_config.hpp"
#include "partita/train/run_directory.hpp"

#include <string>

namespace partita {

/// How a run was requested, besides the deck.
struct RunOptions {
  std::string command_line;
  RunStart start;
  std::int64_t time_limit_seconds = 0; ///< since the program began; 0: none
};

/// How a run ended.
enum class Outcome { finished, stopped, failed };

/// Trains according to the deck on the ranks of `world`, from the beginning or from `options.start`, and
/// fills the run directory: `deck.toml`, `history.csv`, `summary.json`, `parameters.h5`, `checkpoints/`.
/// Collective; Kokkos must be running. Throws UserError for mistakes in deck and data.
Outcome trainDeck(const Communicator& world, const RunConfig& config, const RunDirectory& directory,
                  const RunOptions& options);

} // namespace partita
