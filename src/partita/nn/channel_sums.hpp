#pragma once

#include "partita/core/channels.hpp"

/// Sums over the places of images [rows, places, channels], for each channel of a row. They have the same
/// bits in each run.
namespace partita {

/// Inlines all that a function calls. Compilers would leave the values of 16-bit sums in functions of their
/// own, and then compute them one by one. It takes long, so programs with sanitizers do without.
#if defined(PARTITA_LANE_VECTORS) && !defined(__SANITIZE_ADDRESS__)
#define PARTITA_FLATTEN [[gnu::flatten]]
#else
#define PARTITA_FLATTEN
#endif

/// Sums of this many places are added up on their own, on hosts in double: one float sum of millions of equal
/// values, such as the background of a volume, would be off by percents.
constexpr std::int64_t places_in_float = 1024;

/// Sums over the places of a row for some of its channels, all computed by one thread.
struct ChannelsOfThread {
  static constexpr int at_once = 4; ///< partial sums of a block
  std::int64_t places, first_channel, end_channel;

  /// With at = value(pack, channel), calls take(channel, at(0) + at(1) + ...) for each channel.
  /// `pack` is a Pack of the channels from this one on, and at(place) gives a value for each of
  /// them; `at` may change the elements that it is called for.
  template <class Value, class Take>
  PARTITA_FLATTEN KOKKOS_INLINE_FUNCTION void sum(const Value& value, const Take& take) const {
    const std::int64_t count = places;
    forLanes(first_channel, end_channel, [&](auto lanes, std::int64_t first) {
      constexpr int width = decltype(lanes)::count;
      double total[width] = {};
      for (std::int64_t begin = 0; begin < count; begin += places_in_float) {
        Real own[at_once][width] = {};
        forBlock(begin, count, [&](int k, std::int64_t place) {
          PARTITA_LANES
          for (int lane = 0; lane < width; ++lane) own[k][lane] += value(Pack<1>(), first + lane)(place);
        });
        addTo(total, own);
      }
      PARTITA_LANES
      for (int lane = 0; lane < width; ++lane) take(first + lane, static_cast<Real>(total[lane]));
    });
  }

  /// The same for two values: at(place) is a TwoOf.
  template <class Value, class Take>
  PARTITA_FLATTEN KOKKOS_INLINE_FUNCTION void sums(const Value& value, const Take& take) const {
    const std::int64_t count = places;
    forLanes(first_channel, end_channel, [&](auto lanes, std::int64_t first) {
      constexpr int width = decltype(lanes)::count;
      double total[width] = {}, other_total[width] = {};
      for (std::int64_t begin = 0; begin < count; begin += places_in_float) {
        Real own[at_once][width] = {}, other[at_once][width] = {};
        forBlock(begin, count, [&](int k, std::int64_t place) {
          PARTITA_LANES
          for (int lane = 0; lane < width; ++lane) {
            const TwoValues two = value(Pack<1>(), first + lane)(place);
            own[k][lane] += two.first;
            other[k][lane] += two.second;
          }
        });
        addTo(total, own);
        addTo(other_total, other);
      }
      PARTITA_LANES
      for (int lane = 0; lane < width; ++lane)
        take(first + lane, TwoValues{static_cast<Real>(total[lane]), static_cast<Real>(other_total[lane])});
    });
  }

 private:
  /// Calls add(k, place) for the places from `begin` on that are added up in float, where `k` is the partial
  /// sum.
  template <class Add>
  KOKKOS_INLINE_FUNCTION static void forBlock(std::int64_t begin, std::int64_t count, const Add& add) {
    const std::int64_t end = count - begin < places_in_float ? count : begin + places_in_float;
    std::int64_t place = begin;
    for (; place + at_once <= end; place += at_once)
      for (int k = 0; k < at_once; ++k) add(k, place + k);
    for (; place < end; ++place) add(0, place);
  }

  template <int Width>
  KOKKOS_INLINE_FUNCTION static void addTo(double (&total)[Width], const Real (&own)[at_once][Width]) {
    PARTITA_LANES
    for (int lane = 0; lane < Width; ++lane)
      total[lane] += static_cast<double>((own[0][lane] + own[2][lane]) + (own[1][lane] + own[3][lane]));
  }
};

/// The same for some channels by a team. Each lane first sums every `lanes`-th place, with `Width`
/// channels per thread; then groups of lanes are added up, then the groups.
template <int Width>
struct ChannelsOfTeam {
  static constexpr int channels_per_team = 32, threads_per_place = channels_per_team / Width,
                       lanes = Width == 1                     ? 32
                               : sizeof(Real) > sizeof(float) ? 64
                                                              : 128,
                       lanes_per_group = Width == 1 ? 4 : 16;
  using P = Pack<Width>;
  using Scratch = ScratchView<TwoValues[Width][lanes + 1][threads_per_place]>;
  static_assert(sizeof(TwoValues) * Width * (lanes + 1) * threads_per_place <= team_scratch_bytes,
                "a team's memory is within what every GPU has");
  const Team::member_type& member;
  Scratch partial;
  std::int64_t places, first;
  int count;

  template <class Value, class Take>
  KOKKOS_INLINE_FUNCTION void sum(const Value& value, const Take& take) const {
    sums(
        [&](P pack, std::int64_t channel) {
          const auto at = value(pack, channel);
          return [=](std::int64_t place) { return TwoOf<typename P::Values>{at(place), P::all(0)}; };
        },
        [&](std::int64_t channel, const TwoValues& total) { take(channel, total.first); });
  }

  template <class Value, class Take>
  KOKKOS_INLINE_FUNCTION void sums(const Value& value, const Take& take) const {
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member, lanes), [&](int lane) {
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(member, count / Width), [&](int pack) {
        const auto at = value(P(), first + std::int64_t{pack} * Width);
        const auto add = [](Real a, Real b) { return a + b; };
        constexpr std::int64_t block = lanes * (places_in_float / ChannelsOfThread::at_once);
        std::int64_t begin = 0;
        do {
          const std::int64_t end = places - begin < block ? places : begin + block;
          TwoOf<typename P::Values> own{P::all(0), P::all(0)};
          for (std::int64_t place = begin + lane; place < end; place += lanes) {
            const auto more = at(place);
            own = {P::map(add, own.first, more.first), P::map(add, own.second, more.second)};
          }
          for (int k = 0; k < Width; ++k) { // sums in double would take twice as many registers
            const TwoValues before = begin == 0 ? TwoValues{0, 0} : partial(k, lane, pack);
            partial(k, lane, pack) = {before.first + P::at(own.first, k),
                                      before.second + P::at(own.second, k)};
          }
          begin += block;
        } while (begin < places);
      });
    });
    member.team_barrier();
    constexpr int groups = lanes / lanes_per_group;
    Kokkos::parallel_for(Kokkos::TeamVectorRange(member, groups * count), [&](int item) {
      const int group = item / count, channel = item - group * count;
      addLanes(channel, group * lanes_per_group, lanes_per_group, 1);
    });
    member.team_barrier();
    Kokkos::parallel_for(Kokkos::TeamVectorRange(member, count), [&](int channel) {
      addLanes(channel, 0, groups, lanes_per_group);
      take(first + channel, partialOf(channel, 0));
    });
    member.team_barrier();
  }

 private:
  /// Neighbouring threads write values of the same index in neighbouring packs. They read
  /// neighbouring channels, which lie in different banks.
  KOKKOS_INLINE_FUNCTION TwoValues& partialOf(int channel, int lane) const {
    return partial(channel % Width, lane, channel / Width);
  }
  /// The first of `many` lanes, `step` apart, becomes the sum of all.
  KOKKOS_INLINE_FUNCTION void addLanes(int channel, int lane, int many, int step) const {
    TwoValues sum = partialOf(channel, lane);
    for (int k = 1; k < many; ++k) {
      const TwoValues more = partialOf(channel, lane + k * step);
      sum = {sum.first + more.first, sum.second + more.second};
    }
    partialOf(channel, lane) = sum;
  }
};

namespace detail {

/// Channels of a work item: all of a row if there is a row for each thread, otherwise a share of them. The
/// vectors of a share are those of whole rows, so bits do not depend on the number of threads.
inline std::int64_t channelsPerItem(std::int64_t rows, std::int64_t channels, std::int64_t threads) {
  const std::int64_t some = std::max(std::int64_t{1}, rows);
  return columnsOfShare(channels, (threads + some - 1) / some);
}
static_assert(columnsOfShare(1, 1) % values_per_vector == 0, "shares are whole vectors");

template <class Body>
struct ThreadSums {
  Body body;
  std::int64_t places, channels, channels_per_item, items_per_row;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const Body local = body;
    const std::int64_t row = item / items_per_row, first = (item - row * items_per_row) * channels_per_item,
                       left = channels - first;
    local(row,
          ChannelsOfThread{places, first, first + (left < channels_per_item ? left : channels_per_item)});
  }
};

template <class Body>
void threadSums(const ExecSpace& space, const char* label, std::int64_t rows, std::int64_t places,
                std::int64_t channels, std::int64_t channels_per_item, const Body& body) {
  const std::int64_t items_per_row = (channels + channels_per_item - 1) / channels_per_item;
  Kokkos::parallel_for(label, Range(space, 0, rows * items_per_row),
                       ThreadSums<Body>{body, places, channels, channels_per_item, items_per_row});
}

template <class Body, class Channels>
struct TeamSums {
  Body body;
  std::int64_t places, channels, teams_per_row;

  KOKKOS_INLINE_FUNCTION void operator()(const Team::member_type& member) const {
    constexpr int most = Channels::channels_per_team;
    const std::int64_t team = member.league_rank(), row = team / teams_per_row,
                       first = (team - row * teams_per_row) * most, left = channels - first;
    body(row, Channels{member, typename Channels::Scratch(member.team_scratch(0)), places, first,
                       left < most ? static_cast<int>(left) : most});
  }
};

template <class Channels, class Body>
void teamSums(const ExecSpace& space, const char* label, std::int64_t rows, std::int64_t places,
              std::int64_t channels, const Body& body) {
  constexpr int most = Channels::channels_per_team;
  const std::int64_t teams_per_row = (channels + most - 1) / most;
  using Policy =
      Kokkos::TeamPolicy<ExecSpace, Kokkos::LaunchBounds<Channels::lanes * Channels::threads_per_place>>;
  const auto policy = teamsOf<Policy>(space, rows * teams_per_row, Channels::lanes,
                                      Channels::threads_per_place, Channels::Scratch::shmem_size());
  Kokkos::parallel_for(label, policy, TeamSums<Body, Channels>{body, places, channels, teams_per_row});
}

} // namespace detail

/// Calls body(row, channels) for the rows, where `channels` is a ChannelsOfThread or a ChannelsOfTeam for
/// some of the channels of the row. If `aligned` is set, all operands may be read in packs.
template <class Body>
void forEachImage(const ExecSpace& space, const char* label, std::int64_t rows, std::int64_t places,
                  std::int64_t channels, bool aligned, const Body& body) {
  if constexpr (row_teams) {
    if (aligned && channels % values_per_pack == 0)
      return detail::teamSums<ChannelsOfTeam<values_per_pack>>(space, label, rows, places, channels, body);
    detail::teamSums<ChannelsOfTeam<1>>(space, label, rows, places, channels, body);
  } else {
    detail::threadSums(space, label, rows, places, channels,
                       detail::channelsPerItem(rows, channels, space.concurrency()), body);
  }
}

} // namespace partita
