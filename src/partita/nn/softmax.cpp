#include "partita/nn/softmax.hpp"

#include "partita/nn/exponentials.hpp"

namespace partita {

namespace {

template <class Stored>
struct CrossEntropyRow {
  const Stored* logits;
  Stored* grad; // null: not wanted
  std::int64_t count;
  Matrix distribution;
  Labels classes;
  RowResults per_row;
  Real smoothing;
  KernelFactor weight;

  /// <target, z - largest>; the target is (1 - smoothing) (class or distribution) + smoothing / classes.
  template <class Row>
  KOKKOS_INLINE_FUNCTION Real targetProduct(const Row& row, std::int64_t i, const Stored* z,
                                            Real largest) const {
    Real hard = 0, spread = 0;
    if (distribution.size() > 0) {
      const Real* target = &distribution(i, 0);
      hard = row.sumStrided(count, [=](std::int64_t c) { return target[c] * (toReal(z[c]) - largest); });
    } else {
      hard = toReal(z[classes(i)]) - largest;
    }
    if (smoothing > 0) spread = row.sumStrided(count, [=](std::int64_t c) { return toReal(z[c]) - largest; });
    return (1 - smoothing) * hard + smoothing / static_cast<Real>(count) * spread;
  }

  /// g = dJ/dz from exp(z - largest), a function of `from`, and scale = weight / their sum, rounded once.
  template <class Row, class Exponential>
  KOKKOS_INLINE_FUNCTION void learn(const Row& row, std::int64_t i, const Stored* from,
                                    const Exponential& exponential, Real scale, Stored* g) const {
    const Real spread = weight.value() * smoothing / static_cast<Real>(count);
    const Real hard = weight.value() * (1 - smoothing);
    if (distribution.size() > 0) {
      const Real* target = &distribution(i, 0);
      row.map(from, g, count, [=](Real value, std::int64_t c) {
        return exponential(value) * scale - spread - hard * target[c];
      });
      return;
    }
    const std::int64_t own = classes(i);
    row.map(from, g, count, [=](Real value, std::int64_t c) {
      const Real slope = exponential(value) * scale - spread;
      return c == own ? slope - hard : slope;
    });
  }

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    const Stored* z = logits + i * count;
    Stored* g = grad == nullptr ? nullptr : grad + i * count;
    std::int64_t best = 0;
    Real largest = 0, sum = 0;
    bool kept = false; // do the exponentials lie in the gradient?
    if constexpr (Row::recomputes) {
      const auto found = row.softmaxOf(z, count);
      best = found.place;
      largest = found.largest;
      sum = found.sum;
    } else {
      best = row.placeOfLargest(z, count);
      largest = toReal(z[best]);
      if constexpr (is_real<Stored>) {
        kept = g != nullptr;
        if (kept) sum = expRow(row, z, largest, count, g);
      }
      if (!kept) sum = expSum(row, z, largest, count);
    }
    const Real product = targetProduct(row, i, z, largest);
    const Real loss = log(sum) - product, correct = best == classes(i) ? Real(1) : Real(0);
    const Real scale = weight.value() / sum + (loss - loss); // NaN with an infinite loss
    if (kept) {
      learn(
          row, i, g, [=](Real kept_value) { return kept_value; }, scale, g);
    } else if (g != nullptr) {
      learn(
          row, i, z, [=](Real value) { return rowExp(value - largest); }, scale, g);
    }
    const RowResults results = per_row;
    row.once([=]() {
      results(i, 0) = loss;
      results(i, 1) = correct;
    });
  }
};

struct SoftmaxRow {
  Matrix logits, probabilities;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    const auto count = static_cast<std::int64_t>(logits.extent(1));
    const Real* z = &logits(i, 0);
    Real* p = &probabilities(i, 0);
    const Real largest = z[row.placeOfLargest(z, count)], inverse = 1 / expRow(row, z, largest, count, p);
    row.each(count, [=](std::int64_t c) { p[c] *= inverse; });
  }
};

template <class Stored>
struct LogSoftmaxRow {
  const Stored* logits;
  Matrix sum;
  Real weight, keep;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    const auto count = static_cast<std::int64_t>(sum.extent(1));
    const Stored* z = logits + i * count;
    const Real factor = weight, kept = keep;
    Real* out = &sum(i, 0);
    const Real largest = toReal(z[row.placeOfLargest(z, count)]);
    const Real shift = largest + log(expSum(row, z, largest, count));
    row.each(count, [=](std::int64_t c) {
      out[c] = (kept == 0 ? Real(0) : kept * out[c]) + factor * (toReal(z[c]) - shift);
    });
  }
};

} // namespace

void softmaxCrossEntropy(const ExecSpace& space, const TypedMatrix& logits, const Targets& targets,
                         Real smoothing, const DeviceFactor& weight, const TypedMatrix& grad, Score& score) {
  PARTITA_REQUIRE(grad.size() == 0 || grad.precision == logits.precision,
                  "logits and a gradient of different precisions");
  withStored(logits.precision, [&](auto stored) {
    using Stored = decltype(stored);
    forEachRow(space, "partita::softmaxCrossEntropy", logits.rows, logits.columns,
               CrossEntropyRow<Stored>{static_cast<const Stored*>(logits.values().data),
                                       grad.size() == 0 ? nullptr : static_cast<Stored*>(grad.values().data),
                                       logits.columns, targets.distribution, targets.classes, score.perRow(),
                                       smoothing, weight.inKernel()});
  });
  score.accumulate(space, logits.rows);
}

void addLogSoftmax(const ExecSpace& space, const TypedMatrix& logits, Real weight, Real keep,
                   const Matrix& sum) {
  withStored(logits.precision, [&](auto stored) {
    using Stored = decltype(stored);
    forEachRow(space, "partita::addLogSoftmax", logits.rows, logits.columns,
               LogSoftmaxRow<Stored>{static_cast<const Stored*>(logits.values().data), sum, weight, keep});
  });
}

void softmax(const ExecSpace& space, const Matrix& logits, const Matrix& probabilities) {
  forEachRow(space, "partita::softmax", logits.extent(0), logits.extent(1),
             SoftmaxRow{logits, probabilities});
}

} // namespace partita
