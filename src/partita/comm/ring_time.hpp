#pragma once

#include "partita/comm/mpi.hpp"

#include <functional>

namespace partita {

/// Seconds of a step of a ring: each rank sends `bytes` from host memory to the next rank and receives as
/// many from the previous one. The ranks of `world` form as many rings of `size` ranks as possible, which all
/// run at once, so that messages that share a link slow each other down. Messages are written before each
/// block of steps. The result is the lower quartile of several blocks of steps, on the slowest rank.
/// Collective over `world`; `size` is at least 2 and at most its number of ranks.
double ringStepSeconds(const Communicator& world, int size, std::int64_t bytes);

/// The same on oversubscribed cores: the mean by which such a message delays ranks that compute after each
/// one. It includes the time for which the message waits until its receiver has a core.
double oversubscribedRingStep(const Communicator& world, int size, std::int64_t bytes,
                              const std::function<void()>& compute);

/// The fraction of such a step's time that is hidden if `compute` runs between its start and its end, for
/// twice as long as the message alone takes; from 0 to 1. The result is the median of several rounds on the
/// slowest rank; on oversubscribed cores it comes from the means of many calls. Collective over `world`.
double ringOverlap(const Communicator& world, int size, std::int64_t bytes, bool oversubscribed,
                   const std::function<void()>& compute);

} // namespace partita
