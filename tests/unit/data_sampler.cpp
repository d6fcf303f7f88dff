#include "partita/data/order.hpp"

#include <algorithm>
#include <numeric>

#include "support/catch.hpp"

namespace partita::test::data_sampler {

TEST_CASE("The order of an epoch is a permutation", "[data]") {
  for (const std::size_t n : {0, 1, 2, 3, 100, 4097}) {
    std::vector<std::uint32_t> order = permutation(n, 3, 5);
    std::vector<std::uint32_t> all(n);
    std::iota(all.begin(), all.end(), 0U);
    if (n >= 100) CHECK(order != all);
    std::sort(order.begin(), order.end());
    CHECK(order == all);
  }
}

TEST_CASE("The order depends on seed and epoch, and on nothing else", "[data]") {
  const auto order = permutation(1000, 3, 5);
  permutation(10, 8, 1);
  CHECK(permutation(1000, 3, 5) == order);
  CHECK(permutation(1000, 3, 6) != order);
  CHECK(permutation(1000, 4, 5) != order);
  // Fixed values: a change of generator or algorithm would break every restart.
  CHECK(permutation(8, 1, 0) == std::vector<std::uint32_t>{6, 7, 1, 0, 5, 4, 2, 3});
}

TEST_CASE("Every order of four is about equally frequent", "[data]") {
  std::vector<int> counts(256, 0);
  const int epochs = 24000;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto order = permutation(4, 11, static_cast<std::uint32_t>(epoch));
    ++counts[order[0] * 64 + order[1] * 16 + order[2] * 4 + order[3]];
  }
  double chi_squared = 0.0;
  for (const int count : counts)
    if (count > 0) chi_squared += (count - epochs / 24.0) * (count - epochs / 24.0) / (epochs / 24.0);
  CHECK(std::count_if(counts.begin(), counts.end(), [](int count) { return count > 0; }) == 24);
  CHECK(chi_squared < 49.7); // 23 degrees of freedom, one in a thousand
}

} // namespace partita::test::data_sampler
