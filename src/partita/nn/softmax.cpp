#include "partita/nn/softmax.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/math.hpp"

namespace partita {

namespace {

using PerRow = Kokkos::View<Real* [2], Kokkos::LayoutRight, MemSpace>;

KOKKOS_INLINE_FUNCTION int largestOf(const Real* z, int count) {
  int best = 0;
  for (int c = 1; c < count; ++c) best = z[c] > z[best] ? c : best;
  return best;
}

/// out[c] = exp(scale (z[c] - largest)); returns their sum. `out` may be `z`.
KOKKOS_INLINE_FUNCTION Real expRow(const Real* z, Real largest, Real scale, int count, Real* out) {
  PARTITA_INDEPENDENT
  for (int c = 0; c < count; ++c) out[c] = rowExp(scale * (z[c] - largest));
  Real sum = 0;
  for (int c = 0; c < count; ++c) sum += out[c];
  return sum;
}

struct CrossEntropyRow {
  Matrix logits, distribution, grad;
  Labels classes;
  PerRow per_row;
  Real smoothing, weight;

  /// <target, z - largest>; the target is (1 - smoothing) (class or distribution) + smoothing / classes.
  KOKKOS_INLINE_FUNCTION Real targetProduct(std::int64_t i, const Real* z, Real largest, int count) const {
    Real hard = 0, spread = 0;
    if (distribution.size() > 0) {
      const Real* target = &distribution(i, 0);
      for (int c = 0; c < count; ++c) hard += target[c] * (z[c] - largest);
    } else {
      hard = z[classes(i)] - largest;
    }
    if (smoothing > 0) {
      for (int c = 0; c < count; ++c) spread += z[c] - largest;
    }
    return (1 - smoothing) * hard + smoothing / static_cast<Real>(count) * spread;
  }

  KOKKOS_INLINE_FUNCTION void learn(std::int64_t i, Real* g, Real sum, int count) const {
    const Real scale = weight / sum, spread = weight * smoothing / static_cast<Real>(count);
    const Real hard = weight * (1 - smoothing);
    if (distribution.size() > 0) {
      const Real* target = &distribution(i, 0);
      PARTITA_INDEPENDENT
      for (int c = 0; c < count; ++c) g[c] = g[c] * scale - spread - hard * target[c];
      return;
    }
    for (int c = 0; c < count; ++c) g[c] = g[c] * scale - spread;
    g[classes(i)] -= hard;
  }

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const auto count = static_cast<int>(logits.extent(1));
    const Real* z = &logits(i, 0);
    const int best = largestOf(z, count);
    const Real product = targetProduct(i, z, z[best], count);
    Real sum = 0;
    if (grad.size() > 0) {
      Real* g = &grad(i, 0);
      sum = expRow(z, z[best], Real(1), count, g);
      learn(i, g, sum, count);
    } else {
      for (int c = 0; c < count; ++c) sum += rowExp(z[c] - z[best]);
    }
    per_row(i, 0) = log(sum) - product;
    per_row(i, 1) = best == classes(i) ? Real(1) : Real(0);
  }
};

struct SoftmaxRow {
  Real scale;
  Matrix logits, probabilities;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const auto count = static_cast<int>(logits.extent(1));
    const Real* z = &logits(i, 0);
    Real* p = &probabilities(i, 0);
    const Real inverse = 1 / expRow(z, z[largestOf(z, count)], scale, count, p);
    PARTITA_INDEPENDENT
    for (int c = 0; c < count; ++c) p[c] *= inverse;
  }
};

struct LogSoftmaxRow {
  Matrix logits, sum;
  Real weight, keep;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const auto count = static_cast<int>(logits.extent(1));
    const Real* z = &logits(i, 0);
    Real* out = &sum(i, 0);
    const Real largest = z[largestOf(z, count)];
    Real total = 0;
    for (int c = 0; c < count; ++c) total += rowExp(z[c] - largest);
    const Real shift = largest + log(total);
    for (int c = 0; c < count; ++c) out[c] = (keep == 0 ? Real(0) : keep * out[c]) + weight * (z[c] - shift);
  }
};

} // namespace

void softmaxCrossEntropy(const ExecSpace& space, const Matrix& logits, const Targets& targets, Real smoothing,
                         Real weight, const Matrix& grad, Score& score) {
  const std::int64_t rows = logits.extent(0);
  Kokkos::parallel_for("partita::softmaxCrossEntropy", Range(space, 0, rows),
                       CrossEntropyRow{logits, targets.distribution, grad, targets.classes, score.perRow(),
                                       smoothing, weight});
  score.accumulate(space, rows);
}

void addLogSoftmax(const ExecSpace& space, const Matrix& logits, Real weight, Real keep, const Matrix& sum) {
  Kokkos::parallel_for("partita::addLogSoftmax", Range(space, 0, static_cast<std::int64_t>(logits.extent(0))),
                       LogSoftmaxRow{logits, sum, weight, keep});
}

void softmax(const ExecSpace& space, Real scale, const Matrix& logits, const Matrix& probabilities) {
  Kokkos::parallel_for("partita::softmax", Range(space, 0, logits.extent(0)),
                       SoftmaxRow{scale, logits, probabilities});
}

} // namespace partita
