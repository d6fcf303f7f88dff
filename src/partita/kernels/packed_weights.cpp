#include "partita/kernels/packed_weights.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/kernels/columns.hpp"

#include <cstring>

namespace partita {

namespace {

template <class Stored>
struct WeightsToColumns {
  const Real* weight;
  Stored* packed;
  std::int64_t channels, taps;
  /// An item is an output.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t begin, std::int64_t end) const {
    const Real* from = weight + item * channels * taps;
    Stored* to = packed + item * channels * taps;
    const std::int64_t step = channels, count = taps;
    std::int64_t tap = begin / step, channel = begin - tap * step;
    for (std::int64_t i = begin; i < end; ++i) {
      to[i] = fromReal<Stored>(from[channel * count + tap]);
      if (++channel == step) {
        channel = 0;
        ++tap;
      }
    }
  }
};

template <class Stored>
struct WeightsFromColumns {
  const Stored* packed;
  Real* weight;
  std::int64_t channels, taps;
  bool accumulate;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t begin, std::int64_t end) const {
    const Stored* from = packed + item * channels * taps;
    Real* to = weight + item * channels * taps;
    const std::int64_t step = channels, count = taps;
    std::int64_t channel = begin / count, tap = begin - channel * count;
    for (std::int64_t i = begin; i < end; ++i) {
      to[i] = toReal(from[tap * step + channel]) + (accumulate ? to[i] : Real(0));
      if (++tap == count) {
        tap = 0;
        ++channel;
      }
    }
  }
};

/// What these compute, for devices: an item is a channel of an output, and neighbouring items have
/// neighbours in the order of the columns.
template <class Stored>
struct TapsToColumns {
  const Real* weight;
  Stored* packed;
  std::int64_t channels, taps;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t output, std::int64_t channel) const {
    const Real* from = weight + (output * channels + channel) * taps;
    Stored* to = packed + output * channels * taps + channel;
    for (std::int64_t tap = 0; tap < taps; ++tap) to[tap * channels] = fromReal<Stored>(from[tap]);
  }
};

template <class Stored>
struct TapsFromColumns {
  const Stored* packed;
  Real* weight;
  std::int64_t channels, taps;
  bool accumulate;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t output, std::int64_t channel) const {
    const Stored* from = packed + output * channels * taps + channel;
    Real* to = weight + (output * channels + channel) * taps;
    for (std::int64_t tap = 0; tap < taps; ++tap)
      to[tap] = toReal(from[tap * channels]) + (accumulate ? to[tap] : Real(0));
  }
};

/// With fewer channels, a device would have few items with long loops.
constexpr std::int64_t many_channels = 32;

} // namespace

void packWeights(const ExecSpace& space, std::int64_t taps, const Matrix& weight, const TypedMatrix& packed) {
  const std::int64_t outputs = weight.extent(0), depth = weight.extent(1), channels = depth / taps;
  if (taps == 1) return convert(space, TypedMatrix(weight).values(), packed.values());
  withStored(packed.precision, [&](auto stored) {
    using Stored = decltype(stored);
    if (row_teams && channels >= many_channels)
      return forEachElement(space, "partita::columns::pack_kernel", outputs, channels,
                            TapsToColumns<Stored>{weight.data(), packed.as<Stored>(), channels, taps});
    forEachRun(space, "partita::columns::pack_kernel", outputs, depth,
               WeightsToColumns<Stored>{weight.data(), packed.as<Stored>(), channels, taps});
  });
}

void unpackWeights(const ExecSpace& space, std::int64_t taps, const TypedMatrix& packed, const Matrix& weight,
                   bool accumulate) {
  const std::int64_t outputs = weight.extent(0), depth = weight.extent(1), channels = depth / taps;
  if (taps == 1 && !accumulate) return convert(space, packed.values(), TypedMatrix(weight).values());
  withStored(packed.precision, [&](auto stored) {
    using Stored = decltype(stored);
    if (row_teams && channels >= many_channels)
      return forEachElement(
          space, "partita::columns::unpack_kernel", outputs, channels,
          TapsFromColumns<Stored>{packed.as<Stored>(), weight.data(), channels, taps, accumulate});
    forEachRun(space, "partita::columns::unpack_kernel", outputs, depth,
               WeightsFromColumns<Stored>{packed.as<Stored>(), weight.data(), channels, taps, accumulate});
  });
}

} // namespace partita
