#pragma once

#include "partita/core/random.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace partita {

/// The numbers 0 .. n-1 in random order, n < 2^32: Fisher and Yates' shuffle in Durstenfeld's form (CACM
/// algorithm 235, 1964), a function of the stream and n alone.
std::vector<std::uint32_t> permutation(std::size_t n, const RandomStream& stream);

/// The order in which an epoch visits n training samples.
std::vector<std::uint32_t> permutation(std::size_t n, std::uint64_t seed, std::uint32_t epoch);

} // namespace partita
