#include "partita/core/image_layout.hpp"
#include "partita/nn/channel_sums.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/images.hpp"

namespace partita::test::core_channels {

namespace {

constexpr DefaultSpace space;

/// Adds a number to each value and sums the places of each channel.
struct ShiftAndSum {
  Matrix images, sums;
  std::int64_t channels;

  template <class Channels>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, const Channels& of_row) const {
    const ShiftAndSum local = *this;
    of_row.sum(
        [=](auto pack, std::int64_t channel) {
          return [=](std::int64_t place) {
            Real* const at = &local.images(row, place * local.channels + channel);
            const auto shifted = pack.map([](Real value) { return value + 2; }, pack.load(at));
            pack.store(at, shifted);
            return shifted;
          };
        },
        [=](std::int64_t channel, Real sum) { local.sums(row, channel) = sum; });
  }
};

struct Number {
  Matrix images;
  std::int64_t channels;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t place, std::int64_t channel) const {
    images(row, place * channels + channel) += static_cast<Real>(1000 * row + 50 * place + channel);
  }
};

enum class By { threads, shares, teams, packs };

Values sumsOf(std::int64_t rows, std::int64_t places, std::int64_t channels, const Values& values, By by) {
  const Matrix images = matrixOf(rows, places * channels, values),
               sums = makeMatrix("partita::test::sums", rows, channels);
  const ShiftAndSum body{images, sums, channels};
  switch (by) {
  case By::teams:
    detail::teamSums<ChannelsOfTeam<1>>(space, "partita::test::teams", rows, places, channels, body);
    break;
  case By::packs:
    detail::teamSums<ChannelsOfTeam<values_per_pack>>(space, "partita::test::packs", rows, places, channels,
                                                      body);
    break;
  case By::threads:
    detail::threadSums(space, "partita::test::threads", rows, places, channels,
                       detail::channelsPerItem(rows, channels, 1), body);
    break;
  case By::shares:
    detail::threadSums(space, "partita::test::shares", rows, places, channels,
                       detail::channelsPerItem(rows, channels, 100), body);
  }
  fence(space, "partita::test");
  Values found = valuesOf(sums);
  const Values changed = valuesOf(images);
  bool right = changed.size() == values.size();
  for (std::size_t i = 0; i < values.size(); ++i)
    right = right && std::abs(changed[i] - values[i] - 2) < 1e-6 * (std::abs(values[i]) + 2);
  CHECK(right);
  return found;
}

/// All 16-bit numbers, and floats spread evenly over all floats, in vectors of each length.
template <class Half>
void checkLanes() {
  constexpr std::int64_t at_once = 31; // 16 + 8 + 4 + 2 + 1
  for (std::uint32_t first = 0; first < 65536; first += at_once) {
    Half halves[at_once];
    Real values[at_once];
    for (std::uint32_t i = 0; i < at_once; ++i) halves[i].bits = static_cast<std::uint16_t>(first + i);
    forLanes(0, at_once,
             [&](auto lanes, std::int64_t i) { lanes.store(values + i, lanes.load(halves + i)); });
    for (int i = 0; i < at_once; ++i) {
      const Real expected = toReal(halves[i]);
      if (std::memcmp(values + i, &expected, sizeof expected) != 0) FAIL(halves[i].bits);
    }
  }
  for (std::uint64_t first = 0; first < std::uint64_t{1} << 32; first += 4099 * at_once) {
    Real values[at_once];
    Half halves[at_once];
    for (std::uint64_t i = 0; i < at_once; ++i)
      values[i] = static_cast<Real>(detail::floatOf(static_cast<std::uint32_t>(first + i * 4099)));
    forLanes(0, at_once,
             [&](auto lanes, std::int64_t i) { lanes.store(halves + i, lanes.load(values + i)); });
    for (int i = 0; i < at_once; ++i)
      if (halves[i].bits != fromReal<Half>(values[i]).bits) FAIL(values[i]);
  }
}

} // namespace

TEST_CASE("Sums over the places of each channel, by threads, by teams and in packs", "[core]") {
  for (const std::int64_t channels : {1, 3, 16, 22, 70, 72}) {
    for (const std::int64_t places : {1, 5, 64, 131}) {
      constexpr std::int64_t rows = 3;
      const Values values = normals(rows * places * channels, 1);
      Values expected(static_cast<std::size_t>(rows * channels));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t width = static_cast<std::size_t>(channels),
                          row = i / width / static_cast<std::size_t>(places);
        expected[row * width + i % width] += values[i] + 2;
      }
      INFO(channels << " channels, " << places << " places");
      for (const By by : {By::threads, By::shares, By::teams, By::packs})
        if (by != By::packs || channels % values_per_pack == 0)
          CHECK(relativeError(sumsOf(rows, places, channels, values, by), expected) < 1e-6);
      CHECK(sumsOf(rows, places, channels, values, By::shares) ==
            sumsOf(rows, places, channels, values, By::threads));
    }
  }
}

TEST_CASE("Threads without a row of their own share the channels of the others", "[core]") {
  CHECK(detail::channelsPerItem(8, 64, 8) == 64);
  CHECK(detail::channelsPerItem(2, 64, 8) == 16);
  CHECK(detail::channelsPerItem(3, 64, 8) == 32);
  CHECK(detail::channelsPerItem(1, 70, 2) == 48); // whole cache lines
  CHECK(detail::channelsPerItem(1, 5, 8) == 16);
  CHECK(detail::channelsPerItem(0, 64, 8) == 16);
}

TEST_CASE("Sums over millions of equal values do not drift", "[core][sweep]") {
  constexpr std::int64_t places = 1 << 21;
  for (const auto& [channels, by] :
       {std::pair{1, By::threads}, {16, By::threads}, {1, By::teams}, {16, By::packs}}) {
    if (by == By::threads && !device_is_host) continue; // one thread of a device would take seconds
    INFO(channels << " channels");
    const Values values(static_cast<std::size_t>(places * channels), 1.3),
        found = sumsOf(1, places, channels, values, by);
    for (const double sum : found) CHECK(sum == Approx(3.3 * places).epsilon(1e-5));
  }
}

TEST_CASE("Every value of an image is visited once", "[core]") {
  for (const std::int64_t channels : {1, 6, 21, 5000}) {
    constexpr std::int64_t rows = 2, places = 11;
    const Matrix images =
        matrixOf(rows, places * channels, Values(static_cast<std::size_t>(rows * places * channels), 0.0));
    forEachChannel(space, "partita::test::number", rows, places, channels, Number{images, channels});
    fence(space, "partita::test");
    const Values found = valuesOf(images);
    bool right = true;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::size_t width = static_cast<std::size_t>(channels), place = i / width;
      right = right &&
              found[i] == static_cast<double>(1000 * (place / places) + 50 * (place % places) + i % width);
    }
    CHECK(right);
  }
}

TEST_CASE("Vectors of 16-bit numbers are loaded and stored as one number is", "[core][half]") {
  checkLanes<BFloat16>();
  checkLanes<Float16>();
}

TEST_CASE("The channels of a place lie side by side", "[core]") {
  const Shape shape{2, 1, 3};
  const Values numbers{0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112},
      memory{0, 10, 1, 11, 2, 12, 100, 110, 101, 111, 102, 112};
  CHECK(asInMemory(numbers, shape) == memory);
  CHECK(asInShape(memory, shape) == numbers);
  const Matrix from = matrixOf(2, 6, numbers), to = makeMatrix("partita::test::to", 2, 6);
  fromShapeOrder(space, layoutOf(shape), from, to);
  CHECK(valuesOf(to) == memory);
  toShapeOrder(space, layoutOf(shape), to, from);
  CHECK(valuesOf(from) == numbers);
  CHECK(layoutOf({5, 7}).trivial());
  CHECK(layoutOf({1, 4, 4}).trivial());
  CHECK(layoutOf({9, 1, 1}).trivial());
  CHECK_FALSE(layoutOf({2, 1, 1, 3}).trivial());
}

} // namespace partita::test::core_channels
