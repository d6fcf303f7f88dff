#pragma once

#include "partita/config/run_config.hpp"

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

} // namespace partita
