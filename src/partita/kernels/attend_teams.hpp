#pragma once

#include "partita/core/pack.hpp"
#include "partita/core/rows.hpp"
#include "partita/kernels/attend_tiles.hpp"

/// Causal attention by teams, for devices. A team has a tile of the queries or of the keys of one
/// head, and goes through the tiles of keys or of queries, respectively, in order. All sums
/// therefore have a fixed order, and nothing is added atomically. The tiles of a step lie in the
/// team's scratch memory, from which a thread reads four neighbouring values at once. A work item
/// computes 2 x 2 or 2 x 4 values of a product, or a single value where heads are so wide that
/// their small tiles would leave threads idle.
namespace partita::attention_teams {

using detail::Head;
using detail::no_score;
using Four = Pack<4>;

constexpr std::int64_t team_size = std::int64_t{8} * vector_lanes; // threads

/// Positions of a tile: four tiles and two matrices of scores fit into 48 KiB.
template <int Bound>
constexpr std::int64_t tile_size = 2048 * sizeof(float) / (Bound * sizeof(Real));

/// Calls body(i, j) for a matrix: the threads of a team have rows, and their lanes columns. As for the
/// operations of rows, the body may overwrite what was read before, and all see what it has written.
template <class Body>
KOKKOS_INLINE_FUNCTION void forMatrix(const Team::member_type& member, std::int64_t rows,
                                      std::int64_t columns, const Body& body) {
  member.team_barrier();
  Kokkos::parallel_for(Kokkos::TeamThreadRange(member, rows), [&](std::int64_t i) {
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(member, columns), [&](std::int64_t j) { body(i, j); });
  });
  member.team_barrier();
}

/// A matrix in scratch memory. Rows are padded: neighbouring threads then read different banks, and each row
/// begins at a multiple of four values.
template <std::int64_t Rows, std::int64_t Columns>
struct ScratchMatrix {
  static constexpr std::int64_t row = Columns + Four::count, size = Rows * row;
  Real* values;

  KOKKOS_INLINE_FUNCTION Real& operator()(std::int64_t i, std::int64_t j) const {
    return values[i * row + j];
  }
  /// The values of columns j to j + 3; j is a multiple of four.
  KOKKOS_INLINE_FUNCTION Four::Values four(std::int64_t i, std::int64_t j) const {
    return Four::load(values + i * row + j);
  }
};

/// Rows of one head; columns up to a multiple of four are 0.
template <int Bound>
struct ScratchTile : ScratchMatrix<tile_size<Bound>, Bound> {
  /// Copies `count` rows of `width` values, `stride` apart; rows after them become 0.
  KOKKOS_INLINE_FUNCTION void load(const Team::member_type& member, const Real* from, std::int64_t stride,
                                   std::int64_t count, std::int64_t width) const {
    const ScratchTile to = *this;
    const std::int64_t columns = (width + Four::count - 1) / Four::count * Four::count;
    forMatrix(member, tile_size<Bound>, columns, [=](std::int64_t i, std::int64_t j) {
      to(i, j) = i < count && j < width ? from[i * stride + j] : Real(0);
    });
  }
};

/// Scores of a tile of queries and a tile of keys.
template <int Bound>
using Scores = ScratchMatrix<tile_size<Bound>, tile_size<Bound>>;

/// The team's scratch memory, given out from first to last.
class ScratchMemory {
 public:
  KOKKOS_INLINE_FUNCTION ScratchMemory(const Team::member_type& member, std::int64_t values)
      : _next(static_cast<Real*>(
            member.team_scratch(0).get_shmem_aligned(values * sizeof(Real), Four::count * sizeof(Real)))) {}

  template <class Part>
  KOKKOS_INLINE_FUNCTION Part take() {
    Part part;
    part.values = take(Part::size);
    return part;
  }
  KOKKOS_INLINE_FUNCTION Real* take(std::int64_t count) {
    Real* begin = _next;
    _next += count;
    return begin;
  }

 private:
  Real* _next;
};

KOKKOS_INLINE_FUNCTION Real product(const Four::Values& a, const Four::Values& b, Real sum) {
  for (int k = 0; k < Four::count; ++k) sum += a.of[k] * b.of[k];
  return sum;
}

/// Calls store(i, j, <a_i, b_j>) for all rows i of A and j of B.
template <int Bound, class Store>
KOKKOS_INLINE_FUNCTION void forProducts(const RowOfTeam& team, const ScratchTile<Bound>& a,
                                        const ScratchTile<Bound>& b, std::int64_t width, const Store& store) {
  constexpr std::int64_t size = tile_size<Bound>, half = size / 2;
  if constexpr (half * half < team_size) {
    team.each(size * size, [=](std::int64_t item) {
      const std::int64_t i = item / size, j = item - i * size;
      Real sum = 0;
      for (std::int64_t k = 0; k < width; k += Four::count) sum = product(a.four(i, k), b.four(j, k), sum);
      store(i, j, sum);
    });
    return;
  }
  team.each(half * half, [=](std::int64_t item) {
    const std::int64_t i = item / half, j = item - i * half;
    Real first = 0, second = 0, third = 0, fourth = 0;
    for (std::int64_t k = 0; k < width; k += Four::count) {
      const auto left = a.four(i, k), low = a.four(i + half, k), right = b.four(j, k),
                 far = b.four(j + half, k);
      first = product(left, right, first);
      second = product(left, far, second);
      third = product(low, right, third);
      fourth = product(low, far, fourth);
    }
    store(i, j, first);
    store(i, j + half, second);
    store(i + half, j, third);
    store(i + half, j + half, fourth);
  });
}

/// to[c] = before to[c] + sum[c] for the first `count` values of four.
KOKKOS_INLINE_FUNCTION void addFour(Real* to, std::int64_t count, Real before, const Four::Values& sum) {
  const auto add = [=](Real old, Real more) { return before * old + more; };
  if (count >= Four::count && reinterpret_cast<std::uintptr_t>(to) % (Four::count * sizeof(Real)) == 0)
    return Four::store(to, Four::map(add, Four::load(to), sum));
  for (int c = 0; c < Four::count; ++c)
    if (c < count) to[c] = add(to[c], sum.of[c]);
}

/// to(i, c) = before(i) to(i, c) + sum over k of weight(i, k) b(k, c), for `count` rows of `to`, which are
/// `stride` apart; weights(i, k) are those of k to k + 3.
template <int Bound, class Weights, class Before>
KOKKOS_INLINE_FUNCTION void addProduct(const RowOfTeam& team, const Weights& weights,
                                       const ScratchTile<Bound>& b, Real* to, std::int64_t stride,
                                       std::int64_t count, std::int64_t width, const Before& before) {
  constexpr int size = tile_size<Bound>, half = size / 2;
  const int groups = static_cast<int>((width + Four::count - 1) / Four::count);
  team.each(std::int64_t{half} * groups, [=](std::int64_t item) {
    const int i = static_cast<int>(item) / groups, c = Four::count * (static_cast<int>(item) - i * groups);
    Four::Values upper = Four::all(0), lower = Four::all(0);
    for (int k = 0; k < size; k += Four::count) {
      const Four::Values above = weights(i, k), below = weights(i + half, k);
      for (int l = 0; l < Four::count; ++l) {
        const Four::Values right = b.four(k + l, c);
        for (int j = 0; j < Four::count; ++j) {
          upper.of[j] += above.of[l] * right.of[j];
          lower.of[j] += below.of[l] * right.of[j];
        }
      }
    }
    if (i < count) addFour(to + i * stride + c, width - c, before(i), upper);
    if (i + half < count) addFour(to + (i + half) * stride + c, width - c, before(i + half), lower);
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

template <class Kernel, int Bound>
Team teams(const ExecSpace& space, const AttentionShape& shape) {
  constexpr std::int64_t values = Kernel::scratch + Four::count, // the first may have to be aligned
      bytes = values * static_cast<std::int64_t>(sizeof(Real));
  static_assert(bytes <= team_scratch_bytes, "a team's memory is within what every GPU has");
  const std::int64_t count = shape.samples * shape.heads * Place<Bound>::tilesOf(shape.positions);
  return teamsOf<Team>(space, count, team_size / vector_lanes, vector_lanes, bytes);
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
    const RowOfTeam team{{member}};
    ScratchMemory memory(member, scratch);
    const auto queries = memory.take<Tile>(), keys = memory.take<Tile>(), values = memory.take<Tile>();
    const auto scores = memory.take<Scores<Bound>>();
    Real *const most = memory.take(tile_size<Bound>), *const sum = memory.take(tile_size<Bound>),
                *const correction = memory.take(tile_size<Bound>);
    const std::int64_t begin = place.begin, rows = place.count(begin), width = head.width;
    Real* own = out + head.output(begin);
    const std::int64_t stride = head.out_row;
    queries.load(member, qkv + head.query(begin), head.row, rows, width);
    team.each(tile_size<Bound>, [=](std::int64_t i) {
      most[i] = no_score;
      sum[i] = 0;
    });
    forMatrix(member, rows, width, [=](std::int64_t i, std::int64_t j) { own[i * stride + j] = 0; });
    for (std::int64_t key = 0; key < begin + rows; key += tile_size<Bound>) {
      const std::int64_t count = place.count(key);
      keys.load(member, qkv + head.key(key), head.row, count, width);
      values.load(member, qkv + head.value(key), head.row, count, width);
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
              const Real score = scores(i, j), weight = score == no_score ? Real(0) : rowExp(score - top);
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
      addProduct<Bound>(
          team, [=](std::int64_t i, std::int64_t k) { return scores.four(i, k); }, values, own, stride, rows,
          width, [=](std::int64_t i) { return correction[i]; });
    }
    Real* logarithms = log_sums + head.statistics + begin;
    forMatrix(member, rows, width, [=](std::int64_t i, std::int64_t j) { own[i * stride + j] /= sum[i]; });
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
    const RowOfTeam team{{member}};
    ScratchMemory memory(member, scratch);
    Pair<Bound> pair{memory.take<Tile>(), memory.take<Tile>(),          memory.take<Tile>(),
                     memory.take<Tile>(), memory.take<Scores<Bound>>(), memory.take<Scores<Bound>>()};
    clear(member, place);
    if (OfQueries) {
      loadQueries(member, place, pair, place.begin);
      for (std::int64_t key = 0; key <= place.begin; key += tile_size<Bound>) {
        loadKeys(member, place, pair, key);
        pair.compute(team, place, place.begin, key, log_sums, along);
        const auto slopes = pair.slopes;
        add(
            team, place, [=](std::int64_t i, std::int64_t k) { return slopes.four(i, k); }, pair.keys,
            grad_qkv + place.head.query(place.begin));
      }
    } else {
      loadKeys(member, place, pair, place.begin);
      for (std::int64_t query = place.begin; query < place.head.positions; query += tile_size<Bound>) {
        loadQueries(member, place, pair, query);
        pair.compute(team, place, query, place.begin, log_sums, along);
        addTurned(team, place, pair.weights, pair.grads, grad_qkv + place.head.value(place.begin));
        addTurned(team, place, pair.slopes, pair.queries, grad_qkv + place.head.key(place.begin));
      }
    }
  }

  KOKKOS_INLINE_FUNCTION void loadQueries(const Team::member_type& member, const Place<Bound>& place,
                                          const Pair<Bound>& pair, std::int64_t first) const {
    const Head& head = place.head;
    pair.queries.load(member, qkv + head.query(first), head.row, place.count(first), head.width);
    pair.grads.load(member, grad_out + head.output(first), head.out_row, place.count(first), head.width);
  }

  KOKKOS_INLINE_FUNCTION void loadKeys(const Team::member_type& member, const Place<Bound>& place,
                                       const Pair<Bound>& pair, std::int64_t first) const {
    const Head& head = place.head;
    pair.keys.load(member, qkv + head.key(first), head.row, place.count(first), head.width);
    pair.values.load(member, qkv + head.value(first), head.row, place.count(first), head.width);
  }

  /// to(i, c) += sum over k of weight(i, k) rows(k, c), for the positions of the team.
  template <class Weights>
  KOKKOS_INLINE_FUNCTION void add(const RowOfTeam& team, const Place<Bound>& place, const Weights& weights,
                                  const Tile& rows, Real* to) const {
    addProduct<Bound>(team, weights, rows, to, place.head.row, place.count(place.begin), place.head.width,
                      [](std::int64_t) { return Real(1); });
  }

  /// The same with scores(k, i).
  KOKKOS_INLINE_FUNCTION void addTurned(const RowOfTeam& team, const Place<Bound>& place,
                                        const Scores<Bound>& scores, const Tile& rows, Real* to) const {
    const auto turned = [=](std::int64_t i, std::int64_t k) {
      return Four::Values{{scores(k, i), scores(k + 1, i), scores(k + 2, i), scores(k + 3, i)}};
    };
    add(team, place, turned, rows, to);
  }

  KOKKOS_INLINE_FUNCTION void clear(const Team::member_type& member, const Place<Bound>& place) const {
    const Head head = place.head;
    const std::int64_t first = head.query(place.begin);
    Real* to = grad_qkv;
    for (std::int64_t third = OfQueries ? 0 : 1; third < (OfQueries ? 1 : 3); ++third) {
      const std::int64_t offset = first + third * head.out_row;
      forMatrix(member, place.count(place.begin), head.width,
                [=](std::int64_t i, std::int64_t j) { to[offset + i * head.row + j] = 0; });
    }
  }
};

} // namespace partita::attention_teams
