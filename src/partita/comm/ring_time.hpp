#pragma once

#include "partita/comm/mpi.hpp"

namespace partita {

/// Seconds of a step of a ring: each rank sends `bytes` from host memory to the next rank and receives as
/// many from the one before. The ranks of `world` form as many rings of `size` ranks as there are whole ones,
/// which all run at once, so that messages that share a link slow each other down. The shortest of several
/// blocks of steps, on the slowest rank. Collective over `world`; `size` is at least 2 and at most its number
/// of ranks.
double ringStepSeconds(const Communicator& world, int size, std::int64_t bytes);

} // namespace partita
