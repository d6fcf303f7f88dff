#include "partita/data/sampler.hpp"

#include <numeric>
#include <utility>

namespace partita {

std::vector<std::uint32_t> permutation(std::size_t n, const RandomStream& stream) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t i = n; i > 1; --i)
    std::swap(order[i - 1], order[stream.below(i, static_cast<std::uint32_t>(i))]);
  return order;
}

std::vector<std::uint32_t> permutation(std::size_t n, std::uint64_t seed, std::uint32_t epoch) {
  return permutation(n, RandomStream(seed, Stream::shuffle, epoch));
}

} // namespace partita
