#include "partita/core/random.hpp"

#include <array>
#include <cmath>
#include <set>

#include "support/catch.hpp"

namespace partita::test::core_random {

namespace {

std::array<std::uint32_t, 4> words(const Random4& random) {
  return {random.word[0], random.word[1], random.word[2], random.word[3]};
}

struct Moments {
  double mean = 0.0, variance = 0.0, kurtosis = 0.0, largest = 0.0;
};

template <class Draw>
Moments momentsOf(const Draw& draw) {
  constexpr std::uint64_t count = 200000;
  double sums[4] = {};
  Moments moments;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double value = draw(i);
    double power = 1.0;
    for (double& sum : sums) sum += (power *= value);
    moments.largest = std::max(moments.largest, std::abs(value));
  }
  for (double& sum : sums) sum /= static_cast<double>(count);
  moments.mean = sums[0];
  moments.variance = sums[1] - sums[0] * sums[0];
  moments.kurtosis = sums[3] / (sums[1] * sums[1]);
  return moments;
}

} // namespace

TEST_CASE("Philox gives the known answers of its authors", "[core]") {
  using Words = std::array<std::uint32_t, 4>;
  CHECK(words(philox(0, 0, 0, 0, 0)) == Words{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U});
  const std::uint32_t ones = 0xffffffffU;
  CHECK(words(philox(ones, ones, ones, ones, ~std::uint64_t{0})) ==
        Words{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU});
  CHECK(words(philox(0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U, 0x299f31d0a4093822U)) ==
        Words{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U});
}

TEST_CASE("A stream counts its seed, purpose, epoch and index", "[core]") {
  const RandomStream stream(5, Stream::labels, 2);
  CHECK(words(stream.block(7)) == words(philox(7, 0, 6, 2, 5)));
  CHECK(words(stream.block(std::uint64_t{7} << 32)) == words(philox(0, 7, 6, 2, 5)));
  CHECK(stream.bits(4 * 7 + 3) == stream.block(7).word[3]);
}

TEST_CASE("Seeds, purposes, epochs and indices give different numbers", "[core]") {
  std::set<std::array<std::uint32_t, 4>> seen;
  for (const std::uint64_t seed : {1, 2})
    for (const Stream stream : {Stream::shuffle, Stream::initialisation, Stream::labels, Stream::mixture})
      for (const std::uint32_t epoch : {0U, 1U})
        for (std::uint64_t index = 0; index < 50; ++index)
          seen.insert(words(RandomStream(seed, stream, epoch).block(index)));
  CHECK(seen.size() == 2 * 4 * 2 * 50);
}

TEST_CASE("Uniform numbers fill [0, 1)", "[core]") {
  const RandomStream stream(1, Stream::split);
  const Moments moments = momentsOf([&](std::uint64_t i) { return stream.uniform(i); });
  CHECK(moments.mean == Approx(0.5).margin(0.003));
  CHECK(moments.variance == Approx(1.0 / 12.0).margin(0.001));
  CHECK(moments.largest < 1.0);
  CHECK(toUniform(0) == 0.0F);
  CHECK(toUniform(~0U) < 1.0F);
}

TEST_CASE("Bounded integers reach all values below the bound and no other", "[core]") {
  const RandomStream stream(1, Stream::split);
  std::set<std::uint32_t> seen;
  for (std::uint64_t i = 0; i < 300; ++i) seen.insert(stream.below(i, 7));
  CHECK(seen == std::set<std::uint32_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("Normal numbers have the moments of the normal distribution", "[core]") {
  const RandomStream stream(3, Stream::initialisation);
  const Moments moments = momentsOf([&](std::uint64_t i) { return stream.normal(i); });
  CHECK(moments.mean == Approx(0.0).margin(0.01));
  CHECK(moments.variance == Approx(1.0).margin(0.015));
  CHECK(moments.kurtosis == Approx(3.0).margin(0.1));
  CHECK(moments.largest > 4.0);
  CHECK(moments.largest < 6.7); // the limit for 32 bits
}

TEST_CASE("Rough normal numbers have mean zero and unit variance", "[core]") {
  const RandomStream stream(3, Stream::mixture);
  const Moments moments = momentsOf([&](std::uint64_t i) { return toRoughNormal(stream.bits(i)); });
  CHECK(moments.mean == Approx(0.0).margin(0.01));
  CHECK(moments.variance == Approx(1.0).margin(0.015));
  CHECK(moments.kurtosis == Approx(3.0 - 0.3).margin(0.05)); // four uniform terms lack 1.2 / 4
  CHECK(toRoughNormal(~0U) == Approx(3.45).margin(0.01));
  CHECK(toRoughNormal(0) == -toRoughNormal(~0U));
}

} // namespace partita::test::core_random
