#pragma once

#include "partita/config/run_config.hpp"
#include "partita/plan/share.hpp"

#include <cstddef>
#include <cstdint>

namespace partita {

/// How a pipeline of ranks divides a batch, as far as the deck alone decides. `group` counts the ranks of one
/// replica from 0, `groups` is their number; a rank may have several stages.

/// Number of microbatches into which a replica's `rows` samples are split: as many as the deck says, but none
/// of them empty.
std::int64_t microbatchesOf(const StrategySection& strategy, std::int64_t rows);

/// Rows of the largest microbatch.
std::int64_t microbatchRows(const StrategySection& strategy, std::int64_t rows);

/// Most microbatches whose activations a rank keeps. The last rank runs backward for each one at once. This
/// limit never grows along the pipeline; otherwise a fixed order would deadlock.
std::int64_t liveWindow(const StrategySection& strategy, int group, int groups, std::int64_t microbatches);

/// A limit with which a message-driven pipeline keeps fewer activations than without one, and still hides
/// links and differences in speed; 0 if the deck has a limit or another schedule.
std::int64_t smallerLimit(const StrategySection& strategy, int groups);

/// The phases of a run: the stages train, and then, if the deck says so, the joined network recovers.
enum class RunPhase { training, recovery };

/// The position of a run. It means the same on every rank, even if ranks reach it at different times.
struct Position {
  RunPhase phase = RunPhase::training;
  int stage = 0;         ///< frozen: the stage that is being trained; 0 otherwise
  std::int64_t step = 0; ///< steps taken so far: by that stage, by every stage, or in the recovery
};

/// The length of a run in steps.
struct RunLength {
  std::int64_t steps = 0;          ///< of each stage
  std::int64_t per_epoch = 0;      ///< whole batches in the training set
  std::int64_t epoch_samples = 0;  ///< that an epoch trains on
  std::int64_t recovery_steps = 0; ///< of the joined network, afterwards
  int turns = 1;                   ///< stages that train one after another; 1 where all train at once

  std::int64_t total() const { return steps * turns + recovery_steps; }
  /// Samples that the joined network is trained on, with those of the recovery.
  double samples(std::int64_t batch) const {
    const std::int64_t epochs = steps / per_epoch, rest = steps % per_epoch + recovery_steps;
    return static_cast<double>(epochs) * static_cast<double>(epoch_samples) +
           static_cast<double>(rest) * static_cast<double>(batch);
  }
  /// Steps of the whole run up to a position: what checkpoints and the history count.
  std::int64_t runStep(const Position& position) const;
};

/// The length of a run on a training set of `samples`. Throws UserError if the training set is smaller than a
/// batch.
RunLength planRunLength(const RunConfig& config, std::int64_t samples);
/// Throws UserError if a batch has too few samples for this many replicas.
void requireWorkForAll(const RunConfig& config, std::int64_t replicas);
/// Throws UserError if a run that is to begin would have more steps than `most_run_steps`.
void checkLength(const RunSection& run, const RunLength& length);

} // namespace partita
