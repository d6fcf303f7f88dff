#pragma once

#include "partita/config/run_config.hpp"

#include <cstddef>
#include <cstdint>

namespace partita {

/// What a pipeline of ranks does with a batch, as far as the deck alone decides. `group` counts the ranks of
/// one replica from 0, `groups` is their number: a rank may have several stages.

/// Microbatches that a replica's `rows` samples become: as many as the deck says, but none of them empty.
std::int64_t microbatchesOf(const StrategySection& strategy, std::int64_t rows);

/// Rows of the largest of them.
std::int64_t microbatchRows(const StrategySection& strategy, std::int64_t rows);

/// Microbatches whose activations a rank keeps at most. The last rank turns each one round at once. Windows
/// never grow along the pipeline: a fixed order would wait for ever if they did.
std::int64_t liveWindow(const StrategySection& strategy, int group, int groups, std::int64_t microbatches);

/// The parts of a run: the stages learn, and then, where the deck says so, the joined network recovers.
enum class RunPhase { training, recovery };

/// Where a run stands: the same on every rank, however far apart they are in time.
struct Position {
  RunPhase phase = RunPhase::training;
  int stage = 0;         ///< frozen: the one that is under training; else 0
  std::int64_t step = 0; ///< taken so far: by that stage, by every stage, or in the recovery
};

/// How long a run is, in steps.
struct RunLength {
  std::int64_t steps = 0;          ///< of each stage
  std::int64_t per_epoch = 0;      ///< whole batches in the training set
  std::int64_t recovery_steps = 0; ///< of the joined network, afterwards
  int turns = 1;                   ///< stages that train one after another; 1 where all train at once

  std::int64_t total() const { return steps * turns + recovery_steps; }
  /// Steps of the whole run up to a position: what checkpoints and the history count.
  std::int64_t runStep(const Position& position) const;
};

/// The length of a run on a training set of `samples`.
/// Throws UserError where the training set is smaller than a batch.
RunLength planRunLength(const RunConfig& config, std::size_t samples);

} // namespace partita
