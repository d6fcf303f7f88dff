#include "partita/nn/softmax.hpp"

#include "partita/core/math.hpp"

namespace partita {

namespace {

struct CrossEntropyRow {
  Matrix logits, distribution, grad;
  Labels classes;
  Kokkos::View<Real* [2], Kokkos::LayoutRight, MemSpace> per_row;
  Real smoothing, weight;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const auto count = static_cast<int>(logits.extent(1));
    const Real* z = &logits(i, 0);
    int best = 0;
    for (int c = 1; c < count; ++c) best = z[c] > z[best] ? c : best;
    const Real largest = z[best];
    const bool soft = distribution.size() > 0, learn = grad.size() > 0;
    const auto label = static_cast<int>(classes(i));
    const Real spread = soft ? Real(0) : smoothing / static_cast<Real>(count);
    Real sum = 0, target_product = 0; // sum of exp, and <target, z - largest>
    for (int c = 0; c < count; ++c) {
      const Real shifted = z[c] - largest, e = exp(shifted);
      sum += e;
      if (learn) grad(i, c) = e;
      target_product += (soft ? distribution(i, c) : spread) * shifted;
    }
    if (!soft) target_product += (1 - smoothing) * (z[label] - largest);
    per_row(i, 0) = log(sum) - target_product;
    per_row(i, 1) = best == label ? Real(1) : Real(0);
    if (!learn) return;
    const Real scale = weight / sum;
    for (int c = 0; c < count; ++c)
      grad(i, c) = grad(i, c) * scale - weight * (soft ? distribution(i, c) : spread);
    if (!soft) grad(i, label) -= weight * (1 - smoothing);
  }
};

struct SoftmaxRow {
  Real scale;
  Matrix logits, probabilities;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const auto count = static_cast<int>(logits.extent(1));
    Real largest = logits(i, 0);
    for (int c = 1; c < count; ++c) largest = logits(i, c) > largest ? logits(i, c) : largest;
    Real sum = 0;
    for (int c = 0; c < count; ++c) {
      probabilities(i, c) = exp(scale * (logits(i, c) - largest));
      sum += probabilities(i, c);
    }
    for (int c = 0; c < count; ++c) probabilities(i, c) /= sum;
  }
};

} // namespace

void softmaxCrossEntropy(const ExecSpace& space, const Matrix& logits, const Targets& targets, Real smoothing,
                         Real weight, const Matrix& grad, Score& score) {
  const auto rows = static_cast<std::int64_t>(logits.extent(0));
  Kokkos::parallel_for("partita::softmaxCrossEntropy", Range(space, 0, rows),
                       CrossEntropyRow{logits, targets.distribution, grad, targets.classes, score.perRow(),
                                       smoothing, weight});
  score.accumulate(space, rows);
}

void softmax(const ExecSpace& space, Real scale, const Matrix& logits, const Matrix& probabilities) {
  Kokkos::parallel_for("partita::softmax", Range(space, 0, static_cast<std::int64_t>(logits.extent(0))),
                       SoftmaxRow{scale, logits, probabilities});
}

} // namespace partita
