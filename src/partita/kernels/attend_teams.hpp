#pragma once

#include "partita/core/rows.hpp"
#include "partita/kernels/attend_tiles.hpp"

/// Causal attention by teams, for devices. A team has a tile of queries or of keys of one head, and goes
/// through the tiles of the others in order, so that all sums have a fixed order and nothing is added
/// atomically. The tiles of a step lie in the team's scratch memory. A work item has 2 x 2 values of a
/// product, or one where heads are so wide that their small tiles would leave threads idle.
namespace partita::attention_teams {

using detail::Head;
using detail::no_score;

constexpr std::int64_t warp = 32, team_size = 8 * warp; // threads of a team

/// Positions of a tile: five tiles and two matrices of scores fit into 48 KiB.
template <int Bound>
constexpr std::int64_t tile_size = 2048 * sizeof(float) / (Bound * sizeof(Real));

/// A tile in scratch memory: rows of one head, padded so that neighbouring threads read different banks.
template <int Bound>
struct ScratchTile {
  static constexpr std::int64_t row = Bound + 1, size = tile_size<Bound> * row;
  Real* values;

  KOKKOS_INLINE_FUNCTION Real& operator()(std::int64_t i, std::int64_t j) const {
    return values[i * row + j];
  }

  /// Copies `count` rows of `width` values, `stride` apart; rows after them become 0.
  KOKKOS_INLINE_FUNCTION void load(const RowOfTeam& team, const Real* from, std::int64_t stride,
                                   std::int64_t count, std::int64_t width) const {
    Real* to = values;
    team.each(tile_size<Bound> * width, [=](std::int64_t element) {
      const std::int64_t i = element / width, j = element - i * width;
      to[i * row + j] = i < count ? from[i * stride + j] : Real(0);
    });
  }
};

/// Scores of a tile of queries and a tile of keys.
template <int Bound>
struct Scores {
  static constexpr std::int64_t row = tile_size<Bound> + 1, size = tile_size<Bound> * row;
  Real* values;
  KOKKOS_INLINE_FUNCTION Real& operator()(std::int64_t i, std::int64_t j) const {
    return values[i * row + j];
  }
};

/// The team's scratch memory, given out from first to last.
struct ScratchMemory {
  Real* next;
  template <class Part>
  KOKKOS_INLINE_FUNCTION Part take() {
    Real* begin = next;
    next += Part::size;
    return Part{begin};
  }
};

/// Calls store(i, j, <a_i, b_j>) for all rows i of A and j of B.
template <int Bound, class Store>
KOKKOS_INLINE_FUNCTION void forProducts(const RowOfTeam& team, const ScratchTile<Bound>& a,
                                        const ScratchTile<Bound>& b, std::int64_t width, const Store& store) {
  constexpr std::int64_t size = tile_size<Bound>, half = size / 2;
  if constexpr (half * half < team_size) {
    team.each(size * size, [=](std::int64_t item) {
      const std::int64_t i = item / size, j = item - i * size;
      Real sum = 0;
      for (std::int64_t k = 0; k < width; ++k) sum += a(i, k) * b(j, k);
      store(i, j, sum);
    });
    return;
  }
  team.each(half * half, [=](std::int64_t item) {
    const std::int64_t i = item / half, j = item - i * half;
    Real first = 0, second = 0, third = 0, fourth = 0;
    for (std::int64_t k = 0; k < width; ++k) {
      const Real left = a(i, k), low = a(i + half, k), right = b(j, k), far = b(j + half, k);
      first += left * right;
      second += left * far;
      third += low * right;
      fourth += low * far;
    }
    store(i, j, first);
    store(i, j + half, second);
    store(i + half, j, third);
    store(i + half, j + half, fourth);
  });
}

/// to(i, c) += sum over k of weight(i, k) b(k, c), for `count` rows of `to`, which are `stride` apart.
template <int Bound, class Weight>
KOKKOS_INLINE_FUNCTION void addProduct(const RowOfTeam& team, const Weight& weight,
                                       const ScratchTile<Bound>& b, Real* to, std::int64_t stride,
                                       std::int64_t count, std::int64_t width) {
  constexpr std::int64_t half = tile_size<Bound> / 2;
  const std::int64_t columns = (width + 1) / 2;
  team.each(half * columns, [=](std::int64_t item) {
    const std::int64_t i = item / columns, c = item - i * columns;
    const std::int64_t far =
        c + columns < width ? c + columns : c; // the last column of an odd width stands alone
    Real first = 0, second = 0, third = 0, fourth = 0;
    for (std::int64_t k = 0; k < tile_size<Bound>; ++k) {
      const Real upper = weight(i, k), lower = weight(i + half, k), left = b(k, c), right = b(k, far);
      first += upper * left;
      second += upper * right;
      third += lower * left;
      fourth += lower * right;
    }
    if (i < count) {
      to[i * stride + c] += first;
      if (far != c) to[i * stride + far] += second;
    }
    if (i + half < count) {
      to[(i + half) * stride + c] += third;
      if (far != c) to[(i + half) * stride + far] += fourth;
    }
  });
}

/// The tile of a team, and how to go through the others.
template <int Bound>
struct Place {
  static constexpr std::int64_t size = tile_size<Bound>;

  KOKKOS_INLINE_FUNCTION Place(const AttentionShape& shape, const Team::member_type& member)
      : head(shape, member.league_rank() / tilesOf(shape.positions)),
        begin(member.league_rank() % tilesOf(shape.positions) * size) {}

  static KOKKOS_INLINE_FUNCTION std::int64_t tilesOf(std::int64_t positions) {
    return (positions + size - 1) / size;
  }
  /// Rows of the tile at `first` that are positions.
  KOKKOS_INLINE_FUNCTION std::int64_t count(std::int64_t first) const {
    return head.positions - first < size ? head.positions - first : size;
  }

  Head head;
  std::int64_t begin;
};

template <int Bound>
Team teams(const ExecSpace& space, const AttentionShape& shape, std::int64_t scratch_values) {
  const auto count = static_cast<int>(shape.samples * shape.heads * Place<Bound>::tilesOf(shape.positions));
  Team policy = device_is_host ? Team(space, count, 1) : Team(space, count, team_size / warp, warp);
  policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(scratch_values * sizeof(Real))));
  return policy;
}

/// o = softmax(scale q k^T) v and the logarithm of each sum, for a tile of queries (Dao, arXiv 2205.14135,
/// algorithm 1).
template <int Bound>
struct Forward {
  using Tile = ScratchTile<Bound>;
  static constexpr std::int64_t scratch = 3 * Tile::size + Scores<Bound>::size + 3 * tile_size<Bound>;
  AttentionShape shape;
  const Real* qkv;
  Real *out, *log_sums;

  KOKKOS_INLINE_FUNCTION void operator()(const Team::member_type& member) const {
    const Place<Bound> place(shape, member);
    const Head head = place.head;
    const RowOfTeam team{member};
    ScratchMemory memory{static_cast<Real*>(member.team_scratch(0).get_shmem(scratch * sizeof(Real)))};
    const auto queries = memory.take<Tile>(), keys = memory.take<Tile>(), values = memory.take<Tile>();
    const auto scores = memory.take<Scores<Bound>>();
    Real *most = memory.next, *sum = most + tile_size<Bound>, *correction = sum + tile_size<Bound>;
    const std::int64_t begin = place.begin, rows = place.count(begin), width = head.width;
    Real* own = out + head.output(begin);
    const std::int64_t stride = head.out_row;
    queries.load(team, qkv + head.query(begin), head.row, rows, width);
    team.each(tile_size<Bound>, [=](std::int64_t i) {
      most[i] = no_score;
      sum[i] = 0;
    });
    team.each(rows * width, [=](std::int64_t e) { own[e / width * stride + e % width] = 0; });
    for (std::int64_t key = 0; key < begin + rows; key += tile_size<Bound>) {
      const std::int64_t count = place.count(key);
      keys.load(team, qkv + head.key(key), head.row, count, width);
      values.load(team, qkv + head.value(key), head.row, count, width);
      const Real scale = head.scale;
      forProducts<Bound>(team, queries, keys, width, [=](std::int64_t i, std::int64_t j, Real product) {
        scores(i, j) = j < count && key + j <= begin + i ? scale * product : no_score;
      });
      Kokkos::parallel_for(Kokkos::TeamThreadRange(member, tile_size<Bound>), [&](std::int64_t i) {
        Real largest = no_score, total = 0;
        Kokkos::parallel_reduce(
            Kokkos::ThreadVectorRange(member, tile_size<Bound>),
            [&](std::int64_t j, Real& best) { best = scores(i, j) > best ? scores(i, j) : best; },
            Kokkos::Max<Real>(largest));
        const Real before = most[i], top = largest > before ? largest : before;
        Kokkos::parallel_reduce(
            Kokkos::ThreadVectorRange(member, tile_size<Bound>),
            [&](std::int64_t j, Real& part) {
              const Real score = scores(i, j), weight = score > no_score ? rowExp(score - top) : Real(0);
              scores(i, j) = weight;
              part += weight;
            },
            total);
        Kokkos::single(Kokkos::PerThread(member), [&]() {
          correction[i] = rowExp(before - top);
          sum[i] = sum[i] * correction[i] + total;
          most[i] = top;
        });
      });
      member.team_barrier();
      team.each(rows * width,
                [=](std::int64_t e) { own[e / width * stride + e % width] *= correction[e / width]; });
      addProduct<Bound>(team, scores, values, own, stride, rows, width);
    }
    Real* logarithms = log_sums + head.statistics + begin;
    team.each(rows * width, [=](std::int64_t e) { own[e / width * stride + e % width] /= sum[e / width]; });
    team.each(rows, [=](std::int64_t i) { logarithms[i] = most[i] + log(sum[i]); });
  }
};

/// What both backward kernels compute of a pair of tiles: the weights p, and the gradients of the scores
/// before scaling, p (dJ/dp - <dJ/do, o>) scale, with dJ/dp = dJ/do v^T (Dao, algorithm 2).
template <int Bound>
struct Pair {
  ScratchTile<Bound> queries, grads, keys, values;
  Scores<Bound> weights, slopes;

  KOKKOS_INLINE_FUNCTION void compute(const RowOfTeam& team, const Place<Bound>& place, std::int64_t query,
                                      std::int64_t key, const Real* log_sums, const Real* along) const {
    const std::int64_t rows = place.count(query), columns = place.count(key);
    const Real scale = place.head.scale;
    const Real *logarithms = log_sums + place.head.statistics + query,
               *means = along + place.head.statistics + query;
    const auto p = weights, s = slopes;
    forProducts<Bound>(team, queries, keys, place.head.width,
                       [=](std::int64_t i, std::int64_t j, Real product) {
                         const bool seen = i < rows && j < columns && key + j <= query + i;
                         p(i, j) = seen ? rowExp(scale * product - logarithms[i]) : Real(0);
                       });
    forProducts<Bound>(team, grads, values, place.head.width,
                       [=](std::int64_t i, std::int64_t j, Real product) {
                         s(i, j) = i < rows ? scale * p(i, j) * (product - means[i]) : Real(0);
                       });
  }
};

/// The gradient of a tile of queries, or of a tile of keys and values.
template <bool OfQueries, int Bound>
struct Backward {
  using Tile = ScratchTile<Bound>;
  static constexpr std::int64_t scratch = 4 * Tile::size + 2 * Scores<Bound>::size;
  AttentionShape shape;
  const Real *qkv, *log_sums, *grad_out, *along;
  Real* grad_qkv;

  KOKKOS_INLINE_FUNCTION void operator()(const Team::member_type& member) const {
    const Place<Bound> place(shape, member);
    const RowOfTeam team{member};
    ScratchMemory memory{static_cast<Real*>(member.team_scratch(0).get_shmem(scratch * sizeof(Real)))};
    Pair<Bound> pair{memory.take<Tile>(), memory.take<Tile>(),          memory.take<Tile>(),
                     memory.take<Tile>(), memory.take<Scores<Bound>>(), memory.take<Scores<Bound>>()};
    clear(team, place);
    if (OfQueries) {
      loadQueries(team, place, pair, place.begin);
      for (std::int64_t key = 0; key <= place.begin; key += tile_size<Bound>) {
        loadKeys(team, place, pair, key);
        pair.compute(team, place, place.begin, key, log_sums, along);
        addProduct<Bound>(team, pair.slopes, pair.keys, grad_qkv + place.head.query(place.begin),
                          place.head.row, place.count(place.begin), place.head.width);
      }
    } else {
      loadKeys(team, place, pair, place.begin);
      for (std::int64_t query = place.begin; query < place.head.positions; query += tile_size<Bound>) {
        loadQueries(team, place, pair, query);
        pair.compute(team, place, query, place.begin, log_sums, along);
        addTurned(team, place, pair.weights, pair.grads, grad_qkv + place.head.value(place.begin));
        addTurned(team, place, pair.slopes, pair.queries, grad_qkv + place.head.key(place.begin));
      }
    }
  }

  KOKKOS_INLINE_FUNCTION void loadQueries(const RowOfTeam& team, const Place<Bound>& place,
                                          const Pair<Bound>& pair, std::int64_t first) const {
    const Head& head = place.head;
    pair.queries.load(team, qkv + head.query(first), head.row, place.count(first), head.width);
    pair.grads.load(team, grad_out + head.output(first), head.out_row, place.count(first), head.width);
  }

  KOKKOS_INLINE_FUNCTION void loadKeys(const RowOfTeam& team, const Place<Bound>& place,
                                       const Pair<Bound>& pair, std::int64_t first) const {
    const Head& head = place.head;
    pair.keys.load(team, qkv + head.key(first), head.row, place.count(first), head.width);
    pair.values.load(team, qkv + head.value(first), head.row, place.count(first), head.width);
  }

  /// to(j, c) += sum over i of scores(i, j) rows(i, c)
  KOKKOS_INLINE_FUNCTION void addTurned(const RowOfTeam& team, const Place<Bound>& place,
                                        const Scores<Bound>& scores, const Tile& rows, Real* to) const {
    const auto turned = [=](std::int64_t j, std::int64_t i) { return scores(i, j); };
    addProduct<Bound>(team, turned, rows, to, place.head.row, place.count(place.begin), place.head.width);
  }

  KOKKOS_INLINE_FUNCTION void clear(const RowOfTeam& team, const Place<Bound>& place) const {
    const Head head = place.head;
    const std::int64_t width = head.width, count = place.count(place.begin), first = head.query(place.begin);
    Real* to = grad_qkv;
    for (std::int64_t third = OfQueries ? 0 : 1; third < (OfQueries ? 1 : 3); ++third) {
      const std::int64_t offset = first + third * head.out_row;
      team.each(count * width, [=](std::int64_t e) { to[offset + e / width * head.row + e % width] = 0; });
    }
  }
};

} // namespace partita::attention_teams
