#include "partita/nn/softmax.hpp"

#include "partita/core/math.hpp"
#include "partita/core/rows.hpp"

namespace partita {

namespace {

using PerRow = Kokkos::View<Real* [2], Kokkos::LayoutRight, MemSpace>;

template <class Row>
KOKKOS_INLINE_FUNCTION std::int64_t largestOf(const Row& row, const Real* z, std::int64_t count) {
  return row.placeOfLargest(count, [=](std::int64_t c) { return z[c]; });
}

/// out[c] = exp(scale (z[c] - largest)); returns their sum. `out` may be `z`.
template <class Row>
KOKKOS_INLINE_FUNCTION Real expRow(const Row& row, const Real* z, Real largest, Real scale,
                                   std::int64_t count, Real* out) {
  row.each(count, [=](std::int64_t c) { out[c] = rowExp(scale * (z[c] - largest)); });
  return row.sumInOrder(count, [=](std::int64_t c) { return out[c]; });
}

struct CrossEntropyRow {
  Matrix logits, distribution, grad;
  Labels classes;
  PerRow per_row;
  Real smoothing, weight;

  /// <target, z - largest>; the target is (1 - smoothing) (class or distribution) + smoothing / classes.
  template <class Row>
  KOKKOS_INLINE_FUNCTION Real targetProduct(const Row& row, std::int64_t i, const Real* z, Real largest,
                                            std::int64_t count) const {
    Real hard = 0, spread = 0;
    if (distribution.size() > 0) {
      const Real* target = &distribution(i, 0);
      hard = row.sumInOrder(count, [=](std::int64_t c) { return target[c] * (z[c] - largest); });
    } else {
      hard = z[classes(i)] - largest;
    }
    if (smoothing > 0) spread = row.sumInOrder(count, [=](std::int64_t c) { return z[c] - largest; });
    return (1 - smoothing) * hard + smoothing / static_cast<Real>(count) * spread;
  }

  /// g = dJ/dz from exp(z - largest) and its sum.
  template <class Row, class Exponential>
  KOKKOS_INLINE_FUNCTION void learn(const Row& row, std::int64_t i, const Exponential& exponential, Real sum,
                                    std::int64_t count, Real* g) const {
    const Real scale = weight / sum, spread = weight * smoothing / static_cast<Real>(count);
    const Real hard = weight * (1 - smoothing);
    if (distribution.size() > 0) {
      const Real* target = &distribution(i, 0);
      row.each(count, [=](std::int64_t c) { g[c] = exponential(c) * scale - spread - hard * target[c]; });
      return;
    }
    row.each(count, [=](std::int64_t c) { g[c] = exponential(c) * scale - spread; });
    const std::int64_t own = classes(i);
    row.once([=]() { g[own] -= hard; });
  }

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    const auto count = static_cast<std::int64_t>(logits.extent(1));
    const Real* z = &logits(i, 0);
    const std::int64_t best = largestOf(row, z, count);
    const Real largest = z[best], product = targetProduct(row, i, z, largest, count);
    const auto exponential = [=](std::int64_t c) { return rowExp(z[c] - largest); };
    Real sum = 0;
    if (grad.size() == 0) {
      sum = row.sumInOrder(count, exponential);
    } else if (Row::recomputes) {
      sum = row.sumInOrder(count, exponential);
      learn(row, i, exponential, sum, count, &grad(i, 0));
    } else {
      Real* g = &grad(i, 0);
      sum = expRow(row, z, largest, Real(1), count, g);
      learn(
          row, i, [=](std::int64_t c) { return g[c]; }, sum, count, g);
    }
    const PerRow results = per_row;
    const Real loss = log(sum) - product, correct = best == classes(i) ? Real(1) : Real(0);
    row.once([=]() {
      results(i, 0) = loss;
      results(i, 1) = correct;
    });
  }
};

struct SoftmaxRow {
  Real scale;
  Matrix logits, probabilities;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    const auto count = static_cast<std::int64_t>(logits.extent(1));
    const Real* z = &logits(i, 0);
    Real* p = &probabilities(i, 0);
    const Real largest = z[largestOf(row, z, count)], inverse = 1 / expRow(row, z, largest, scale, count, p);
    row.each(count, [=](std::int64_t c) { p[c] *= inverse; });
  }
};

struct LogSoftmaxRow {
  Matrix logits, sum;
  Real weight, keep;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    const auto count = static_cast<std::int64_t>(logits.extent(1));
    const Real* z = &logits(i, 0);
    const Real factor = weight, kept = keep;
    Real* out = &sum(i, 0);
    const Real largest = z[largestOf(row, z, count)];
    const Real shift =
        largest + log(row.sumInOrder(count, [=](std::int64_t c) { return rowExp(z[c] - largest); }));
    row.each(count, [=](std::int64_t c) {
      out[c] = (kept == 0 ? Real(0) : kept * out[c]) + factor * (z[c] - shift);
    });
  }
};

} // namespace

void softmaxCrossEntropy(const ExecSpace& space, const Matrix& logits, const Targets& targets, Real smoothing,
                         Real weight, const Matrix& grad, Score& score) {
  const std::int64_t rows = logits.extent(0);
  forEachRow(space, "partita::softmaxCrossEntropy", rows, logits.extent(1),
             CrossEntropyRow{logits, targets.distribution, grad, targets.classes, score.perRow(), smoothing,
                             weight});
  score.accumulate(space, rows);
}

void addLogSoftmax(const ExecSpace& space, const Matrix& logits, Real weight, Real keep, const Matrix& sum) {
  forEachRow(space, "partita::addLogSoftmax", logits.extent(0), logits.extent(1),
             LogSoftmaxRow{logits, sum, weight, keep});
}

void softmax(const ExecSpace& space, Real scale, const Matrix& logits, const Matrix& probabilities) {
  forEachRow(space, "partita::softmax", logits.extent(0), logits.extent(1),
             SoftmaxRow{scale, logits, probabilities});
}

} // namespace partita
