#include "partita/nn/loss.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/gemm.hpp"
#include "partita/nn/softmax.hpp"

namespace partita {

Score::Score(std::int64_t capacity)
    : _per_row(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::Score::per_row"), capacity),
      _sums("partita::Score::sums"), _kept("partita::Score::kept"), _host("partita::Score::host") {}

void Score::accumulate(const ExecSpace& space, std::int64_t rows) {
  const auto per_row = _per_row;
  const auto sums = _sums;
  const auto batch = static_cast<double>(++_batches);
  Kokkos::parallel_for(
      "partita::Score::accumulate", Range(space, 0, 2), KOKKOS_LAMBDA(std::int64_t which) {
        double sum = 0.0;
        for (std::int64_t i = 0; i < rows; ++i) sum += static_cast<double>(per_row(i, which));
        sums(which) += sum;
        if (which == 1) return;
        sums(2) += static_cast<double>(rows);
        if (sums(3) == 0.0 && !(sum - sum == 0.0)) sums(3) = batch; // not finite
      });
}

Score::Sums Score::take(const ExecSpace& space) {
  const Sums sums = peek(space);
  Kokkos::deep_copy(space, _sums, 0.0);
  _batches = 0;
  return sums;
}

Score::Sums Score::peek(const ExecSpace& space) const {
  Kokkos::deep_copy(space, _host, _sums);
  fence(space, "partita::Score::peek");
  return {_host(0), _host(1), _host(2), _host(3)};
}

bool Score::bad(const ExecSpace& space) const {
  if constexpr (std::is_same<MemSpace, HostSpace>::value) {
    (void)space;
    return _sums(3) != 0.0;
  } else {
    return peek(space).bad_batch != 0.0;
  }
}

void Score::set(const ExecSpace& space, const Sums& sums) {
  _host(0) = sums.loss;
  _host(1) = sums.correct;
  _host(2) = sums.rows;
  _host(3) = 0.0;
  Kokkos::deep_copy(space, _sums, _host);
  fence(space, "partita::Score::set");
  _batches = 0;
}

namespace {

class CrossEntropy : public Loss {
 public:
  explicit CrossEntropy(double smoothing) : _smoothing(smoothing) {}

  void evaluateRows(const ExecSpace& space, const Matrix& output, const Targets& targets, Real weight,
                    const Matrix& grad, Score& score) override {
    const Region region(space, "partita::CrossEntropy", Phase::elementwise);
    softmaxCrossEntropy(space, output, targets, static_cast<Real>(_smoothing), weight, grad, score);
  }
  bool decodesInTraining() const override { return true; }

 private:
  double _smoothing;
};

/// Squared distance to the target row, and its gradient.
struct SquaredError {
  Matrix output, target, labels, grad;
  Labels classes;
  Kokkos::View<Real* [2], Kokkos::LayoutRight, MemSpace> per_row;
  Real weight;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t width = output.extent(1);
    const Real* wanted = target.size() > 0 ? &target(i, 0) : &labels(classes(i), 0);
    Real sum = 0;
    for (std::int64_t j = 0; j < width; ++j) {
      const Real difference = output(i, j) - wanted[j];
      sum += difference * difference;
      if (grad.size() > 0) grad(i, j) = 2 * weight / static_cast<Real>(width) * difference;
    }
    per_row(i, 0) = sum / static_cast<Real>(width);
    per_row(i, 1) = 0;
  }
};

/// Nearest label: argmax over c of <f, S_c> - |S_c|^2 / 2.
struct NearestLabel {
  Matrix products;
  Vector half_squares;
  Labels classes;
  Kokkos::View<Real* [2], Kokkos::LayoutRight, MemSpace> per_row;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    Real best_value = 0;
    std::int32_t best = -1;
    for (std::int64_t c = 0; c < static_cast<std::int64_t>(products.extent(1)); ++c) {
      const Real value = products(i, c) - half_squares(c);
      if (best < 0 || value > best_value) {
        best_value = value;
        best = static_cast<std::int32_t>(c);
      }
    }
    per_row(i, 1) = best == classes(i) ? Real(1) : Real(0);
  }
};

class LabelMse : public Loss {
 public:
  LabelMse(const SilLabels& labels, std::int64_t capacity)
      : _labels(labels), _products(makeMatrix("partita::LabelMse::products", capacity, labels.classes())),
        _capacity(capacity) {}

  void evaluateRows(const ExecSpace& space, const Matrix& output, const Targets& targets, Real weight,
                    const Matrix& grad, Score& score) override {
    const auto rows = static_cast<std::int64_t>(output.extent(0));
    Matrix target; // empty: the label of the row's class
    if (targets.distribution.size() > 0) {
      if (_target.size() == 0) _target = makeMatrix("partita::LabelMse::target", _capacity, _labels.width());
      target = topRows(_target, rows);
      gemm(space, Op::none, Op::none, Real(1), targets.distribution, _labels.rows, Real(0), target);
    }
    const bool decode = grad.size() == 0;
    const Matrix products = topRows(_products, rows);
    if (decode) gemm(space, Op::none, Op::transpose, Real(1), output, _labels.rows, Real(0), products);
    const Region region(space, "partita::LabelMse", Phase::elementwise);
    Kokkos::parallel_for(
        "partita::LabelMse::error", Range(space, 0, rows),
        SquaredError{output, target, _labels.rows, grad, targets.classes, score.perRow(), weight});
    if (decode) {
      Kokkos::parallel_for("partita::LabelMse::decode", Range(space, 0, rows),
                           NearestLabel{products, _labels.half_squares, targets.classes, score.perRow()});
    }
    score.accumulate(space, rows);
  }
  bool decodesInTraining() const override { return false; }

 private:
  SilLabels _labels;
  Matrix _products;
  std::int64_t _capacity;
  Matrix _target; ///< allocated for the first distribution: most runs have none
};

} // namespace

std::unique_ptr<Loss> makeCrossEntropy(double label_smoothing) {
  return std::make_unique<CrossEntropy>(label_smoothing);
}

std::unique_ptr<Loss> makeLabelMse(const SilLabels& labels, std::int64_t capacity) {
  return std::make_unique<LabelMse>(labels, capacity);
}

} // namespace partita
