#pragma once

namespace partita {

/// How the batch sizes of asynchronous workers change: not at all; by a factor, so that the numbers of
/// updates stay close (Hogbatch); by a constant after each round (Adaptive SGD); in step, by measured speed.
enum class WorkerRule { fixed, adaptive, proportional, synchronous };

/// When adaptive batches change: whenever a worker is ahead or behind (free, as published); or only if chance
/// does not explain the difference. They then grow only while all batches together are not larger than the
/// first ones, or no other batch can shrink (bounded).
enum class BatchGrowth { bounded, free };

/// What happens to an update whose parameters have changed since they were read.
enum class StalenessRule { none, scale, ringmaster };

} // namespace partita
