#pragma once

#include "partita/core/loops.hpp"
#include "partita/core/pack.hpp"

/// Kernels over the channels of images [rows, places, channels], and other matrices with few columns. On a
/// host, the loops over channels have a fixed length, so that compilers vectorise them however few there are;
/// on a device, neighbouring threads have neighbouring channels.

/// Declares the iterations of a loop over lanes independent. Compilers would unroll it, because it is short,
/// before they could vectorise it.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define PARTITA_LANES _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#else
#define PARTITA_LANES PARTITA_INDEPENDENT
#endif

/// Compilers for devices do not support vector types.
#if (defined(__GNUC__) || defined(__clang__)) && !defined(__CUDACC__) && !defined(__HIPCC__)
#define PARTITA_LANE_VECTORS
#endif

namespace partita {

/// `Count` neighbouring channels: vectors on hosts, which compilers keep in registers. They are stored in any
/// precision.
template <int Count>
struct Lanes;

template <>
struct Lanes<1> : Pack<1> {};

#ifdef PARTITA_LANE_VECTORS
template <class Number, int Count>
struct LaneVector {
  using Type [[gnu::vector_size(Count * sizeof(Number))]] = Number;
};

template <int Count>
struct Lanes {
  static constexpr int count = Count;
  using Values = typename LaneVector<Real, Count>::Type;

  KOKKOS_INLINE_FUNCTION static Values all(Real value) { return Values{} + value; }
  template <class Stored>
  KOKKOS_INLINE_FUNCTION static Values load(const Stored* from) {
    if constexpr (is_real<Stored>) {
      Values values;
      memcpy(&values, from, sizeof values);
      return values;
    } else {
      Halves halves;
      memcpy(&halves, from, sizeof halves);
      const auto bits = __builtin_convertvector(halves, Bits);
      return __builtin_convertvector(detail::Format<Stored>::template decode<Floats>(bits), Values);
    }
  }
  template <class Stored>
  KOKKOS_INLINE_FUNCTION static void store(Stored* to, const Values& values) {
    if constexpr (is_real<Stored>) {
      memcpy(to, &values, sizeof values);
    } else {
      const auto floats = __builtin_convertvector(values, Floats);
      const auto halves =
          __builtin_convertvector(detail::Format<Stored>::template encode<Bits>(floats), Halves);
      memcpy(to, &halves, sizeof halves);
    }
  }
  /// The function gets whole vectors; that of a Pack gets numbers.
  template <class Function, class... Operands>
  KOKKOS_INLINE_FUNCTION static Values map(const Function& function, const Operands&... operands) {
    return function(operands...);
  }

 private:
  using Halves = typename LaneVector<std::uint16_t, Count>::Type;
  using Bits = typename LaneVector<std::uint32_t, Count>::Type;
  using Floats = typename LaneVector<float, Count>::Type;
};
#else
/// On devices a pack, whose address is a multiple of 16 bytes.
template <>
struct Lanes<values_per_pack> : Pack<values_per_pack> {};
#endif

namespace detail {

/// For fewer than 2 * `Count` channels.
template <int Count, class Body>
KOKKOS_FORCEINLINE_FUNCTION void forFewLanes(std::int64_t begin, std::int64_t end, const Body& body) {
  if (begin + Count <= end) {
    body(Lanes<Count>(), begin);
    begin += Count;
  }
  if constexpr (Count > 1) forFewLanes<Count / 2>(begin, end, body);
}

} // namespace detail

/// Calls body(lanes, first of them) for channels [begin, end), as many at a time as possible.
template <class Body>
KOKKOS_INLINE_FUNCTION void forLanes(std::int64_t begin, std::int64_t end, const Body& body) {
#ifdef PARTITA_LANE_VECTORS
  constexpr int most = values_per_vector;
  for (; begin + most <= end; begin += most) body(Lanes<most>(), begin);
  detail::forFewLanes<most / 2>(begin, end, body);
#else
  for (; begin < end; ++begin) body(Lanes<1>(), begin);
#endif
}

/// The same for a body that may be called twice for a channel. If there are enough channels for a
/// whole vector, the last vector overlaps the one before it, so that no channels are left to be
/// taken one by one. On devices, as many channels as fit into a pack are taken together.
template <int Most = values_per_vector, class Body>
KOKKOS_FORCEINLINE_FUNCTION void coverLanes(std::int64_t begin, std::int64_t end, const Body& body) {
#ifdef PARTITA_LANE_VECTORS
  if (end - begin >= Most) {
    for (; begin + Most <= end; begin += Most) body(Lanes<Most>(), begin);
    if (begin < end) body(Lanes<Most>(), end - Most);
    return;
  }
  if constexpr (Most > 4) return coverLanes<Most / 2>(begin, end, body);
#else
  if (end - begin == values_per_pack) return body(Lanes<values_per_pack>(), begin);
#endif
  for (; begin < end; ++begin) body(Lanes<1>(), begin);
}

namespace detail {

template <class Body>
struct PlaceLanes {
  Body body;
  std::int64_t places, channels, share, shares;

  /// An item is a share of the places of a row.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const Body local = body;
    const std::int64_t row = item / shares, begin = (item - row * shares) * share,
                       end = begin + share < places ? begin + share : places;
    forLanes(0, channels, [&](auto lanes, std::int64_t first) {
      constexpr int width = decltype(lanes)::count;
      for (std::int64_t place = begin; place < end; ++place) {
        PARTITA_LANES
        for (int lane = 0; lane < width; ++lane) local(row, place, first + lane);
      }
    });
  }
};

template <class Body>
struct ChannelOfPlace {
  Body body;
  std::int64_t places;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t index, std::int64_t channel) const {
    const std::int64_t row = index / places;
    body(row, index - row * places, channel);
  }
};

} // namespace detail

/// Calls body(row, place, channel) for every value of images [rows, places, channels]; values must be
/// independent.
template <class Body>
void forEachChannel(const ExecSpace& space, const char* label, std::int64_t rows, std::int64_t places,
                    std::int64_t channels, const Body& body) {
  if constexpr (device_is_host) {
    constexpr std::int64_t values_at_once = 4096; // fit into the fastest cache with those of other operands
    const std::int64_t share = std::max<std::int64_t>(1, values_at_once / channels),
                       shares = (places + share - 1) / share;
    Kokkos::parallel_for(label, Range(space, 0, rows * shares),
                         detail::PlaceLanes<Body>{body, places, channels, share, shares});
  } else {
    forEachElement(space, label, rows * places, channels, detail::ChannelOfPlace<Body>{body, places});
  }
}

} // namespace partita
