#include "partita/nn/loss.hpp"

#include "partita/core/region.hpp"
#include "partita/core/rows.hpp"
#include "partita/kernels/products.hpp"
#include "partita/nn/softmax.hpp"

namespace partita {

Score::Score(std::int64_t capacity)
    : _per_row(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::Score::per_row"), capacity),
      _sums("partita::Score::sums"), _kept("partita::Score::kept"), _host("partita::Score::host") {}

namespace {

/// Adds up a column of the results of the rows; `column` is 0 for losses and 1 for hits.
struct AddRows {
  RowResults per_row;
  Kokkos::View<double*, MemSpace> sums;
  std::int64_t rows;
  double batch;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t column, const Row& row) const {
    const auto results = per_row;
    const auto totals = sums;
    const auto count = static_cast<double>(rows);
    const double number = batch;
    const double sum =
        row.sumStrided(rows, [=](std::int64_t i) { return static_cast<double>(results(i, column)); });
    row.once([=]() {
      totals(column) += sum;
      if (column == 1) return;
      totals(2) += count;
      if (totals(3) == 0.0 && !(sum - sum == 0.0)) totals(3) = number; // not finite
    });
  }
};

} // namespace

/// Only two teams add up all rows while the optimiser waits, so they are made large.
void Score::accumulate(const ExecSpace& space, std::int64_t rows) {
  constexpr std::int64_t many_values = 1 << 20;
  forEachRow(space, "partita::Score::accumulate", 2, many_values,
             AddRows{_per_row, _sums, rows, static_cast<double>(++_batches)});
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

void Score::restoreIfBad(const ExecSpace& space) {
  const auto sums = _sums, kept = _kept;
  Kokkos::parallel_for(
      "partita::Score::restoreIfBad", Range(space, 0, 1), KOKKOS_LAMBDA(std::int64_t) {
        if (sums(3) == 0.0) return;
        for (int i = 0; i < 4; ++i) sums(i) = kept(i);
      });
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

  void evaluateRows(const ExecSpace& space, const TypedMatrix& output, const Targets& targets,
                    const DeviceFactor& weight, const TypedMatrix& grad, Score& score) override {
    const Region region(space, "partita::CrossEntropy", Phase::elementwise);
    const double smoothing = grad.size() > 0 ? _smoothing : 0.0;
    softmaxCrossEntropy(space, output, targets, static_cast<Real>(smoothing), weight, grad, score);
  }
  bool decodesInTraining() const override { return true; }

 private:
  double _smoothing;
};

/// Squared distance to the target row, and its gradient.
struct SquaredError {
  Matrix output, target, labels, grad;
  Labels classes;
  RowResults per_row;
  KernelFactor weight;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    const std::int64_t width = output.extent(1);
    const Real *value = &output(i, 0), *wanted = target.size() > 0 ? &target(i, 0) : &labels(classes(i), 0);
    const Real sum = row.sumStrided(width, [=](std::int64_t j) {
      const Real difference = value[j] - wanted[j];
      return difference * difference;
    });
    if (grad.size() > 0) {
      const Real factor =
          2 * weight.value() / static_cast<Real>(width) + (sum - sum); // NaN with an infinite loss
      Real* g = &grad(i, 0);
      row.each(width, [=](std::int64_t j) { g[j] = factor * (value[j] - wanted[j]); });
    }
    const auto results = per_row;
    row.once([=]() {
      results(i, 0) = sum / static_cast<Real>(width);
      results(i, 1) = 0;
    });
  }
};

/// Nearest label: argmax over c of <f, S_c> - |S_c|^2 / 2.
struct NearestLabel {
  Matrix products;
  Vector half_squares;
  Labels classes;
  RowResults per_row;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    const Real *product = &products(i, 0), *half = half_squares.data();
    const std::int64_t best =
        row.placeOfLargest(products.extent(1), [=](std::int64_t c) { return product[c] - half[c]; });
    const auto results = per_row;
    const Real correct = best == classes(i) ? Real(1) : Real(0);
    row.once([=]() { results(i, 1) = correct; });
  }
};

class LabelMse : public Loss {
 public:
  LabelMse(const SilLabels& labels, std::int64_t capacity)
      : _labels(labels), _products(makeMatrix("partita::LabelMse::products", capacity, labels.classes())),
        _capacity(capacity) {}

  void evaluateRows(const ExecSpace& space, const TypedMatrix& stored, const Targets& targets,
                    const DeviceFactor& weight, const TypedMatrix& stored_grad, Score& score) override {
    const Matrix output = stored.real(), grad = stored_grad.real();
    const std::int64_t rows = stored.rows;
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
    forEachRow(
        space, "partita::LabelMse::error", rows, _labels.width(),
        SquaredError{output, target, _labels.rows, grad, targets.classes, score.perRow(), weight.inKernel()});
    if (decode) {
      forEachRow(space, "partita::LabelMse::decode", rows, _labels.classes(),
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
