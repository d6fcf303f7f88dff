#include "partita/kernels/onednn_attend.hpp"

#include "partita/core/error.hpp"

#if defined(PARTITA_HAVE_ONEDNN) && !defined(PARTITA_DOUBLE)

#include "partita/kernels/attend_tiles.hpp"
#include "partita/kernels/onednn.hpp"
#include "partita/kernels/onednn_products.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace partita::onednn {

namespace {

constexpr std::int64_t queries_at_once = 64;
constexpr std::int64_t least_positions = 32, least_head_width = 16;

/// Heads whose scores fit into the cache of a core together, and with their gradients into the scratch of a
/// sample. The bits of a head do not depend on it.
std::int64_t headsAtOnce(const AttentionShape& shape) {
  constexpr std::int64_t scores_in_cache = std::int64_t{1} << 17;
  const std::int64_t of_head = queries_at_once * shape.positions,
                     in_cache = scores_in_cache * ExecSpace().concurrency() / of_head,
                     in_scratch = (4 * shape.width * shape.positions - packed_alignment) / (3 * of_head);
  return std::min({shape.heads, std::max<std::int64_t>(1, in_cache), in_scratch});
}

/// A matrix per head: where the first one begins, and how far apart heads, rows and columns are.
struct HeadMatrices {
  Precision precision;
  void* data;
  std::int64_t head, row, column = 1;

  HeadMatrices turned() const { return {precision, data, head, column, row}; }
  Memory::desc shaped(std::int64_t heads, std::int64_t rows, std::int64_t columns) const {
    return {Memory::dims{heads, rows, columns}, typeOf(precision), Memory::dims{head, row, column}};
  }
};

/// Sizes of C = A B per head.
struct ProductSizes {
  std::int64_t heads, rows, columns, depth;
};

enum class Sum { overwrites, adds };

Step compile(const ProductSizes& sizes, const HeadMatrices& a, const HeadMatrices& b, const HeadMatrices& c,
             Sum sum) {
  dnnl::post_ops operations;
  if (sum == Sum::adds) operations.append_sum(1.0F);
  return productStep(a.shaped(sizes.heads, sizes.rows, sizes.depth),
                     b.shaped(sizes.heads, sizes.depth, sizes.columns), Memory::desc(),
                     c.shaped(sizes.heads, sizes.rows, sizes.columns), operations);
}

/// C = A B per head, or C += A B; A [rows, depth], B [depth, columns].
void multiply(const ProductSizes& sizes, const HeadMatrices& a, const HeadMatrices& b, const HeadMatrices& c,
              Sum sum = Sum::overwrites) {
  using Key = std::array<std::int64_t, 16>;
  const Key key{sizes.heads,
                sizes.rows,
                sizes.columns,
                sizes.depth,
                a.head,
                a.row,
                a.column,
                b.head,
                b.row,
                b.column,
                c.head,
                c.row,
                c.column,
                static_cast<std::int64_t>(a.precision),
                static_cast<std::int64_t>(c.precision),
                sum == Sum::adds ? 1 : 0};
  static CountedCache<Key, Step> products(4096);
  const std::lock_guard<std::mutex> lock(mutex());
  Step& step = products.get(key, [&] { return compile(sizes, a, b, c, sum); });
  step.run({{DNNL_ARG_SRC, a.data}, {DNNL_ARG_WEIGHTS, b.data}, {DNNL_ARG_DST, c.data}});
}

/// The queries [query, query + rows) of some heads of a sample, and the keys that they see.
struct Block {
  std::int64_t sample, head, heads, query, rows;

  KOKKOS_INLINE_FUNCTION std::int64_t keys() const { return query + rows; }
  /// Place of a row of scores in vectors with a number for each, [samples, heads, positions].
  KOKKOS_INLINE_FUNCTION std::int64_t place(const AttentionShape& shape, std::int64_t row) const {
    return (sample * shape.heads + head + row / rows) * shape.positions + query + row % rows;
  }
  KOKKOS_INLINE_FUNCTION std::int64_t seen(std::int64_t row) const { return query + row % rows + 1; }
  /// Of a matrix of scores.
  HeadMatrices matrices(Precision precision, void* data) const {
    return {precision, data, rows * keys(), keys()};
  }
};

/// The matrices of a block's heads, which lie side by side in rows of places; they begin at a position.
HeadMatrices headsOf(const TypedMatrix& values, const AttentionShape& shape, const Block& block,
                     std::int64_t third = 0, std::int64_t position = 0) {
  const TypedMatrix part = values.rowsFrom(block.sample * shape.positions + position, 1)
                               .columnsFrom(third * shape.width + block.head * shape.headWidth(), 1);
  return {values.precision, part.data, shape.headWidth(), values.stride};
}

/// Weights of a row of scores, rounded, and the logarithm of its sum.
template <class Stored>
struct Softmax {
  AttentionShape shape;
  Block block;
  Real scale;
  Real* scores; // overwritten
  Stored* weights;
  Real* log_sums;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t keys = block.keys(), seen = block.seen(item);
    Real* const row = scores + item * keys;
    Stored* const to = weights + item * keys;
    const Real top = scale * detail::largest(row, seen);
    detail::exponentials(row, seen, keys, scale, top);
    const Real sum = laneSum(keys, [=](std::int64_t j) { return row[j]; }), share = Real(1) / sum;
    PARTITA_INDEPENDENT
    for (std::int64_t j = 0; j < keys; ++j) to[j] = fromReal<Stored>(share * row[j]);
    log_sums[block.place(shape, item)] = top + log(sum);
  }
};

/// The same weights again, and the gradients of the scores before scaling from those of the weights.
template <class Stored>
struct SoftmaxGradient {
  AttentionShape shape;
  Block block;
  Real scale;
  Real *scores, *slopes; // overwritten
  const Real *log_sums, *along;
  Stored *weights, *rounded_slopes;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t keys = block.keys(), place = block.place(shape, item);
    Real *const p = scores + item * keys, *const slope = slopes + item * keys;
    Stored *const to = weights + item * keys, *const to_slope = rounded_slopes + item * keys;
    detail::exponentials(p, block.seen(item), keys, scale, log_sums[place]);
    const Real mean = along[place], factor = scale;
    PARTITA_INDEPENDENT
    for (std::int64_t j = 0; j < keys; ++j) {
      to[j] = fromReal<Stored>(p[j]);
      to_slope[j] = fromReal<Stored>(factor * p[j] * (slope[j] - mean));
    }
  }
};

/// Rounds the sums of keys and values, [positions, 2 width], to their places in rows of 3 x width.
template <class Stored>
struct RoundSums {
  const Real* sums;
  Stored* gradients;
  std::int64_t width;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t position, std::int64_t j) const {
    gradients[position * 3 * width + width + j] = fromReal<Stored>(sums[position * 2 * width + j]);
  }
};

Real scaleOf(const AttentionShape& shape) {
  return static_cast<Real>(1.0 / std::sqrt(static_cast<double>(shape.headWidth())));
}

/// Pieces of scratch for matrices of scores, each for the largest block.
class ScoreMemory {
 public:
  ScoreMemory(Real* scratch, const AttentionShape& shape)
      : _next(alignedIn(scratch)), _scores(headsAtOnce(shape) * queries_at_once * shape.positions) {}
  Real* floats() { return std::exchange(_next, _next + _scores); }
  void* halves() { return std::exchange(_next, _next + (_scores + 1) / 2); }

 private:
  Real* _next;
  std::int64_t _scores;
};

/// Calls `body` for all blocks of a sample. The last queries of a head come first, because they see all keys.
template <class Body>
void forEachBlock(const AttentionShape& shape, std::int64_t sample, const Body& body) {
  const std::int64_t at_once = headsAtOnce(shape),
                     last = (shape.positions - 1) / queries_at_once * queries_at_once;
  for (std::int64_t head = 0; head < shape.heads; head += at_once)
    for (std::int64_t query = last; query >= 0; query -= queries_at_once)
      body(Block{sample, head, std::min(at_once, shape.heads - head), query,
                 std::min(queries_at_once, shape.positions - query)});
}

} // namespace

bool attends(const AttentionShape& shape, Precision stored) {
  return stored != Precision::single && multiplies(stored) && !row_teams &&
         shape.positions >= least_positions && shape.headWidth() >= least_head_width &&
         headsAtOnce(shape) > 0;
}

void attend(const ExecSpace& space, const AttentionValues& values, Real* scratch) {
  const AttentionShape& shape = values.shape;
  ScoreMemory memory(scratch, shape);
  Real* const scores = memory.floats();
  void* const weights = memory.halves();
  fence(space, "partita::onednn::attend"); // the library computes at once
  const auto compute = [&](const Block& block) {
    const ProductSizes inner{block.heads, block.rows, block.keys(), shape.headWidth()},
        outer{block.heads, block.rows, shape.headWidth(), block.keys()};
    multiply(inner, headsOf(values.qkv, shape, block, 0, block.query),
             headsOf(values.qkv, shape, block, 1).turned(), block.matrices(Precision::single, scores));
    withStored(values.qkv.precision, [&](auto stored) {
      using Stored = decltype(stored);
      Kokkos::parallel_for("partita::attend_softmax_kernel", Range(space, 0, block.heads * block.rows),
                           Softmax<Stored>{shape, block, scaleOf(shape), scores,
                                           static_cast<Stored*>(weights), values.log_sums});
    });
    fence(space, "partita::onednn::attend");
    multiply(outer, block.matrices(values.qkv.precision, weights), headsOf(values.qkv, shape, block, 2),
             headsOf(values.out, shape, block, 0, block.query));
  };
  for (std::int64_t sample = 0; sample < shape.samples; ++sample) forEachBlock(shape, sample, compute);
}

namespace {

/// The backward pass of one block.
class BackwardBlock {
 public:
  BackwardBlock(const AttentionValues& values, const AttentionGradients& gradients)
      : _values(values), _gradients(gradients), _shape(values.shape), _along(gradients.scratch),
        _sums(_along + _shape.rows()), _memory(_sums + 2 * _shape.positions * _shape.width, _shape),
        _scores(_memory.floats()), _slopes(_memory.floats()), _weights(_memory.halves()),
        _rounded_slopes(_memory.halves()) {}

  /// <dJ/do, o> per row of scores.
  void measureAlong(const ExecSpace& space) const {
    withStored(_values.out.precision, [&](auto stored) {
      using Stored = decltype(stored);
      forEachRun(
          space, "partita::attend_along_half_kernel", _shape.samples * _shape.heads, _shape.positions,
          AttentionAlong<Stored>{_shape, _values.out.as<Stored>(), _gradients.out.as<Stored>(), _along});
    });
    fence(space, "partita::onednn::attendBack");
  }

  void operator()(const ExecSpace& space, const Block& block) const {
    const Precision half = _values.qkv.precision;
    const std::int64_t width = _shape.headWidth();
    const HeadMatrices queries = headsOf(_values.qkv, _shape, block, 0, block.query),
                       keys = headsOf(_values.qkv, _shape, block, 1),
                       of_values = headsOf(_values.qkv, _shape, block, 2),
                       grad_out = headsOf(_gradients.out, _shape, block, 0, block.query),
                       weights = block.matrices(half, _weights),
                       slopes = block.matrices(half, _rounded_slopes);
    const ProductSizes inner{block.heads, block.rows, block.keys(), width},
        by_queries{block.heads, block.rows, width, block.keys()},
        by_keys{block.heads, block.keys(), width, block.rows};
    multiply(inner, queries, keys.turned(), block.matrices(Precision::single, _scores));
    multiply(inner, grad_out, of_values.turned(), block.matrices(Precision::single, _slopes));
    differentiate(space, block);
    const Sum sum = block.keys() == _shape.positions ? Sum::overwrites : Sum::adds;
    multiply(by_keys, slopes.turned(), queries, sumsOf(block, 0), sum);
    multiply(by_keys, weights.turned(), grad_out, sumsOf(block, 1), sum);
    multiply(by_queries, slopes, keys, headsOf(_gradients.qkv, _shape, block, 0, block.query));
  }

  void storeSums(const ExecSpace& space, std::int64_t sample) const {
    withStored(_gradients.qkv.precision, [&](auto stored) {
      using Stored = decltype(stored);
      Stored* const rows = _gradients.qkv.as<Stored>() + sample * _shape.positions * 3 * _shape.width;
      forEachElement(space, "partita::attend_sums_kernel", _shape.positions, 2 * _shape.width,
                     RoundSums<Stored>{_sums, rows, _shape.width});
    });
    fence(space, "partita::onednn::attendBack");
  }

 private:
  void differentiate(const ExecSpace& space, const Block& block) const {
    withStored(_values.qkv.precision, [&](auto stored) {
      using Stored = decltype(stored);
      Kokkos::parallel_for("partita::attend_slopes_kernel", Range(space, 0, block.heads * block.rows),
                           SoftmaxGradient<Stored>{_shape, block, scaleOf(_shape), _scores, _slopes,
                                                   _values.log_sums, _along, static_cast<Stored*>(_weights),
                                                   static_cast<Stored*>(_rounded_slopes)});
    });
    fence(space, "partita::onednn::attendBack");
  }

  /// The sums of keys or of values, side by side in rows of 2 x width.
  HeadMatrices sumsOf(const Block& block, std::int64_t half) const {
    return {Precision::single, _sums + half * _shape.width + block.head * _shape.headWidth(),
            _shape.headWidth(), 2 * _shape.width};
  }

  const AttentionValues& _values;
  const AttentionGradients& _gradients;
  const AttentionShape& _shape;
  Real *_along, *_sums;
  ScoreMemory _memory;
  Real *_scores, *_slopes;
  void *_weights, *_rounded_slopes;
};

} // namespace

void attendBack(const ExecSpace& space, const AttentionValues& values, const AttentionGradients& gradients) {
  const BackwardBlock compute(values, gradients);
  compute.measureAlong(space);
  for (std::int64_t sample = 0; sample < values.shape.samples; ++sample) {
    forEachBlock(values.shape, sample, [&](const Block& block) { compute(space, block); });
    compute.storeSums(space, sample);
  }
}

} // namespace partita::onednn

#else

namespace partita::onednn {

bool attends(const AttentionShape&, Precision) {
  return false;
}

void attend(const ExecSpace&, const AttentionValues&, Real*) {
  PARTITA_FAIL("this build has no oneDNN for attention");
}

void attendBack(const ExecSpace&, const AttentionValues&, const AttentionGradients&) {
  PARTITA_FAIL("this build has no oneDNN for attention");
}

} // namespace partita::onednn

#endif
