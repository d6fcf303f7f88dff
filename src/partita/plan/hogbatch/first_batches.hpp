#pragma once

#include "partita/plan/hogbatch/worker_mix.hpp"

#include <vector>

namespace partita {

/// The first batches that a deck gives: one to all replica workers, one to all shared workers.
struct FirstBatches {
  std::int64_t replicas = 1, shared = 1;

  std::int64_t of(WorkerRole role) const { return role == WorkerRole::shared ? shared : replicas; }
  /// As far as the bounds of the group allow.
  std::int64_t of(const WorkerGroup& group) const;
};

/// Some workers of a mix, in their order and without given speeds. Each is a group of its own if `apart`.
WorkerMix chosenWorkers(const WorkerMix& mix, const std::vector<std::size_t>& members, bool apart);
/// The same workers with these first batches, which do not change if the rule is `fixed`.
WorkerMix startedWith(const WorkerMix& mix, const FirstBatches& first, WorkerRule rule);

/// Progress per second if nobody waited and no update were late: no course does better.
double mostProgress(const WorkerMix& mix, const FirstBatches& first);

/// Sizes of batches to try for workers of this role, the largest first, or {1} if there are none: `count`
/// ratios between the bounds, those of the groups at the start, and the largest that the rate follows.
std::vector<std::int64_t> sizesToTry(const WorkerMix& mix, WorkerRole role, int count);
/// The fixed batches that make the most progress on the clock, within the bounds.
FirstBatches bestFixedBatches(const WorkerMix& mix);

} // namespace partita
