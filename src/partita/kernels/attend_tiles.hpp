#pragma once

#include "partita/core/loops.hpp"
#include "partita/core/math.hpp"
#include "partita/core/simd_tile.hpp"
#include "partita/kernels/attend.hpp"

namespace partita {

namespace detail {

/// The tiles together fit into the fastest cache.
constexpr std::int64_t query_tile = 32, key_tile = 64;
constexpr Real no_score = -1e30; ///< its exponential is 0, and its differences are finite

/// One head of one sample.
struct Head {
  KOKKOS_INLINE_FUNCTION Head(const AttentionShape& shape, std::int64_t item)
      : positions(shape.positions), width(shape.headWidth()), row(3 * shape.width), out_row(shape.width),
        place(item / shape.heads * positions * shape.width), part(item % shape.heads * width),
        statistics(item * positions), scale(Real(1) / sqrt(static_cast<Real>(width))) {}

  KOKKOS_INLINE_FUNCTION std::int64_t query(std::int64_t i) const { return 3 * place + i * row + part; }
  KOKKOS_INLINE_FUNCTION std::int64_t key(std::int64_t i) const { return query(i) + out_row; }
  KOKKOS_INLINE_FUNCTION std::int64_t value(std::int64_t i) const { return key(i) + out_row; }
  KOKKOS_INLINE_FUNCTION std::int64_t output(std::int64_t i) const { return place + i * out_row + part; }

  /// Number of keys in the tile that begins at `key`.
  KOKKOS_INLINE_FUNCTION std::int64_t keysFrom(std::int64_t key) const {
    return positions - key < key_tile ? positions - key : key_tile;
  }

  std::int64_t positions, width, row, out_row, place, part, statistics;
  Real scale;
};

/// The rows of a query tile and the columns of a key tile that the mask leaves visible to any of these rows.
struct Tile {
  KOKKOS_INLINE_FUNCTION Tile(std::int64_t first_query, std::int64_t first_key, std::int64_t positions)
      : query(first_query), key(first_key), rows(smaller(query_tile, positions - first_query)),
        columns(smaller(smaller(key_tile, positions - first_key), first_query + rows - first_key)),
        padded(smaller((columns + lanes - 1) / lanes * lanes, key_tile)) {}

  static KOKKOS_INLINE_FUNCTION std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
  /// Number of columns that row i may see: at least one, because no query comes before the first key.
  KOKKOS_INLINE_FUNCTION std::int64_t seen(std::int64_t i) const {
    return smaller(columns, query + i - key + 1);
  }

  std::int64_t query, key, rows, columns, padded;
};

/// Transposes [positions, width] to [width, key_tile], padded with zeros.
KOKKOS_INLINE_FUNCTION void transpose(const Real* from, std::int64_t row, std::int64_t count,
                                      std::int64_t width, Real* to) {
  for (std::int64_t j = 0; j < width; ++j) {
    for (std::int64_t i = 0; i < count; ++i) to[j * key_tile + i] = from[i * row + j];
    for (std::int64_t i = count; i < key_tile; ++i) to[j * key_tile + i] = 0;
  }
}

/// tile [rows, padded] = A [rows, width] B, where B [width, key_tile] is a transposed tile.
KOKKOS_INLINE_FUNCTION void products(const Tile& tile, const Real* a, std::int64_t a_row, std::int64_t width,
                                     const Real* transposed, Real* to) {
  product<false>(tile.rows, tile.padded, width, {a, a_row, 1}, transposed, key_tile, to, key_tile);
}

/// Replaces scores by exp(scale x score - shift), and by 0 beyond the columns that the row may see.
/// It computes all of them, because a whole vector takes less time than part of one.
KOKKOS_INLINE_FUNCTION void exponentials(Real* scores, std::int64_t seen, std::int64_t padded, Real scale,
                                         Real shift) {
  const int visible = static_cast<int>(seen), count = static_cast<int>(padded);
  PARTITA_INDEPENDENT
  for (int j = 0; j < count; ++j) {
    const Real value = rowExp(scale * scores[j] - shift);
    scores[j] = j < visible ? value : Real(0);
  }
}

KOKKOS_INLINE_FUNCTION Real largest(const Real* scores, std::int64_t count) {
  constexpr int partial = 16;
  Real most[partial];
  for (Real& lane : most) lane = no_score;
  std::int64_t j = 0;
  for (; j + partial <= count; j += partial)
    for (int lane = 0; lane < partial; ++lane)
      most[lane] = scores[j + lane] > most[lane] ? scores[j + lane] : most[lane];
  const int left = static_cast<int>(count - j);
  for (int lane = 0; lane < partial && left > 0; ++lane) {
    const Real score = lane < left ? scores[j + lane] : no_score;
    most[lane] = score > most[lane] ? score : most[lane];
  }
  for (int half = partial / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane)
      most[lane] = most[lane + half] > most[lane] ? most[lane + half] : most[lane];
  return most[0];
}

} // namespace detail

/// Computes o = softmax(scale q k^T) v and the logarithm of each sum, on a host. A work item has all rows of
/// one head of one sample. The running maximum and sum of each row are corrected with each tile of keys (Dao,
/// algorithm 1). Heads are at most `Bound` wide.
template <int Bound>
struct AttentionForward {
  AttentionShape shape;
  const Real* qkv;
  Real *out, *log_sums;
  Real* sums; ///< scratch, as long as log_sums

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const detail::Head head(shape, item);
    Real *most = log_sums + head.statistics, *sum = sums + head.statistics;
    for (std::int64_t i = 0; i < head.positions; ++i) {
      most[i] = detail::no_score;
      sum[i] = 0;
      for (std::int64_t j = 0; j < head.width; ++j) out[head.output(i) + j] = 0;
    }
    Real keys[Bound * detail::key_tile], scores[detail::query_tile * detail::key_tile];
    for (std::int64_t key = 0; key < head.positions; key += detail::key_tile) {
      detail::transpose(qkv + head.key(key), head.row, head.keysFrom(key), head.width, keys);
      for (std::int64_t query = key; query < head.positions; query += detail::query_tile)
        addTile(head, detail::Tile(query, key, head.positions), keys, scores, most, sum);
    }
    for (std::int64_t i = 0; i < head.positions; ++i) {
      const Real share = Real(1) / sum[i];
      for (std::int64_t j = 0; j < head.width; ++j) out[head.output(i) + j] *= share;
      most[i] += log(sum[i]);
    }
  }

  KOKKOS_INLINE_FUNCTION void addTile(const detail::Head& head, const detail::Tile& tile, const Real* keys,
                                      Real* scores, Real* most, Real* sum) const {
    detail::products(tile, qkv + head.query(tile.query), head.row, head.width, keys, scores);
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      Real* row = scores + i * detail::key_tile;
      const std::int64_t seen = tile.seen(i), place = tile.query + i;
      const Real here = head.scale * detail::largest(row, seen);
      const Real top = here > most[place] ? here : most[place];
      detail::exponentials(row, seen, tile.padded, head.scale, top);
      const Real correction = rowExp(most[place] - top);
      sum[place] = sum[place] * correction + laneSum(tile.padded, [=](std::int64_t j) { return row[j]; });
      most[place] = top;
      Real* output = out + head.output(place);
      for (std::int64_t j = 0; j < head.width; ++j) output[j] *= correction;
    }
    product<true>(tile.rows, head.width, tile.columns, {scores, detail::key_tile, 1},
                  qkv + head.value(tile.key), head.row, out + head.output(tile.query), head.out_row);
  }
};

/// <dJ/do, o> per position of a head.
template <class Stored>
struct AttentionAlong {
  AttentionShape shape;
  const Stored *out, *grad_out;
  Real* along; ///< [samples, heads, positions]

  /// An item is one head of one sample; it runs over positions.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t begin, std::int64_t end) const {
    const detail::Head head(shape, item);
    for (std::int64_t i = begin; i < end; ++i) {
      const Stored *o = out + head.output(i), *d = grad_out + head.output(i);
      along[head.statistics + i] =
          laneSum(head.width, [=](std::int64_t j) { return toReal(o[j]) * toReal(d[j]); });
    }
  }
};

/// The gradients of q, k and v (Dao, algorithm 2), with p = exp(scale q k^T - log sum) recomputed, dJ/dp =
/// dJ/do v^T, dJ/ds = p (dJ/dp - <dJ/do, o>). Heads are at most `Bound` wide.
template <int Bound>
struct AttentionBackward {
  AttentionShape shape;
  const Real *qkv, *log_sums, *grad_out, *along;
  Real* grad_qkv;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const detail::Head head(shape, item);
    clear(head);
    Real keys[Bound * detail::key_tile], values[Bound * detail::key_tile];
    Real weights[detail::query_tile * detail::key_tile], slopes[detail::query_tile * detail::key_tile];
    for (std::int64_t key = 0; key < head.positions; key += detail::key_tile) {
      detail::transpose(qkv + head.key(key), head.row, head.keysFrom(key), head.width, keys);
      detail::transpose(qkv + head.value(key), head.row, head.keysFrom(key), head.width, values);
      for (std::int64_t query = key; query < head.positions; query += detail::query_tile) {
        const detail::Tile tile(query, key, head.positions);
        detail::products(tile, qkv + head.query(query), head.row, head.width, keys, weights);
        detail::products(tile, grad_out + head.output(query), head.out_row, head.width, values, slopes);
        scoreGradients(head, tile, weights, slopes);
        addGradients(head, tile, weights, slopes);
      }
    }
  }

  KOKKOS_INLINE_FUNCTION void clear(const detail::Head& head) const {
    for (std::int64_t i = 0; i < head.positions; ++i) {
      for (std::int64_t third = 0; third < 3; ++third)
        for (std::int64_t j = 0; j < head.width; ++j) grad_qkv[head.query(i) + third * head.out_row + j] = 0;
    }
  }

  /// Replaces scores by weights, and the gradients of the weights by those of the scores before scaling.
  KOKKOS_INLINE_FUNCTION void scoreGradients(const detail::Head& head, const detail::Tile& tile,
                                             Real* weights, Real* slopes) const {
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      const std::int64_t place = head.statistics + tile.query + i;
      Real *p = weights + i * detail::key_tile, *slope = slopes + i * detail::key_tile;
      detail::exponentials(p, tile.seen(i), tile.padded, head.scale, log_sums[place]);
      const Real mean = along[place], scale = head.scale;
      PARTITA_INDEPENDENT
      for (std::int64_t j = 0; j < tile.padded; ++j) slope[j] = scale * p[j] * (slope[j] - mean);
    }
  }

  KOKKOS_INLINE_FUNCTION void addGradients(const detail::Head& head, const detail::Tile& tile,
                                           const Real* weights, const Real* slopes) const {
    const std::int64_t query = head.query(tile.query), key = head.key(tile.key), value = head.value(tile.key);
    const Scattered weights_turned{weights, 1, detail::key_tile}, slopes_turned{slopes, 1, detail::key_tile};
    product<true>(tile.columns, head.width, tile.rows, weights_turned, grad_out + head.output(tile.query),
                  head.out_row, grad_qkv + value, head.row);
    product<true>(tile.rows, head.width, tile.columns, {slopes, detail::key_tile, 1}, qkv + key, head.row,
                  grad_qkv + query, head.row);
    product<true>(tile.columns, head.width, tile.rows, slopes_turned, qkv + query, head.row, grad_qkv + key,
                  head.row);
  }
};

} // namespace partita
