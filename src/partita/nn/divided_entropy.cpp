#include "partita/comm/part_exchange.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/exponentials.hpp"
#include "partita/nn/loss.hpp"

namespace partita {

namespace {

/// What a part knows about a label: its largest logit, and sums over its classes, for the target
/// (1 - smoothing) (class or distribution) + smoothing / classes. In sums, logits are relative to
/// the largest one: differences between sums of large ones would lose precision.
struct ClassSums {
  Real largest;
  Real exponentials; ///< of logits; negative if the largest one belongs to the class of the label
  Real product;      ///< of target x logit
  Real mass;         ///< of target

  KOKKOS_INLINE_FUNCTION Real sum() const { return exponentials < 0 ? -exponentials : exponentials; }
  KOKKOS_INLINE_FUNCTION bool hits() const { return exponentials < 0; }
};
static_assert(sizeof(ClassSums) == ClassParts::statistics * sizeof(Real));

/// The target of a row for the classes of this part.
struct RowTarget {
  const Real* distribution; ///< null: that of one class
  std::int64_t own;         ///< class of the label, counted from the first one of this part
  Real smoothing, spread;

  KOKKOS_INLINE_FUNCTION Real at(std::int64_t c) const {
    const Real hard = distribution != nullptr ? distribution[c] : c == own ? Real(1) : Real(0);
    return (1 - smoothing) * hard + spread;
  }
};

/// The classes of this part, and the target.
struct ClassTarget {
  Matrix distribution; ///< or empty
  Labels classes;
  std::int64_t all, first;
  Real smoothing;

  KOKKOS_INLINE_FUNCTION RowTarget ofRow(std::int64_t i) const {
    return {distribution.size() > 0 ? &distribution(i, first) : nullptr, classes(i) - first, smoothing,
            smoothing / static_cast<Real>(all)};
  }
};

/// Writes the sums of this part. With a gradient, hosts also leave exp(z - largest z of this part) in its
/// place; devices compute that a second time.
struct OwnClassSums {
  Matrix logits, grad;
  ClassTarget target;
  ClassSums* sums;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    const std::int64_t count = logits.extent(1);
    const Real* z = &logits(i, 0);
    const RowTarget wanted = target.ofRow(i);
    std::int64_t best = 0;
    Real largest = 0, sum = 0, product = 0, mass = 0;
    if constexpr (Row::recomputes) {
      const auto found = row.softmaxOf(z, count);
      best = found.place;
      largest = found.largest;
      sum = found.sum;
    } else {
      best = row.placeOfLargest(z, count);
      largest = z[best];
      sum = grad.size() > 0 ? expRow(row, z, largest, count, &grad(i, 0)) : expSum(row, z, largest, count);
    }
    if (wanted.distribution != nullptr || wanted.smoothing > 0) {
      product = row.sumStrided(count, [=](std::int64_t c) { return wanted.at(c) * (z[c] - largest); });
      mass = row.sumStrided(count, [=](std::int64_t c) { return wanted.at(c); });
    } else if (wanted.own >= 0 && wanted.own < count) {
      product = z[wanted.own] - largest;
      mass = 1;
    }
    const ClassSums found{largest, wanted.own == best ? -sum : sum, product, mass};
    ClassSums* to = sums + i;
    row.once([=]() { *to = found; });
  }
};

/// J = log sum exp z - <target, z> over all classes, and dJ/dz for the classes of this part. The
/// sums of part p begin at p x rows.
struct AllClassSums {
  const ClassSums* sums;
  ClassTarget target;
  Matrix logits, grad;
  RowResults per_row;
  int parts, own;
  std::int64_t rows;
  KernelFactor weight;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    int best = 0;
    for (int part = 1; part < parts; ++part) best = of(part, i).largest > of(best, i).largest ? part : best;
    const Real largest = of(best, i).largest;
    Real sum = 0, product = 0;
    for (int part = 0; part < parts; ++part) {
      const Real below = of(part, i).largest - largest;
      sum += of(part, i).sum() * rowExp(below);
      product += of(part, i).product;
      if (of(part, i).mass > 0) product += of(part, i).mass * below; // 0 x -infinity is NaN
    }
    const Real loss = log(sum) - product, correct = of(best, i).hits() ? Real(1) : Real(0);
    const RowResults results = per_row;
    row.once([=]() {
      results(i, 0) = loss;
      results(i, 1) = correct;
    });
    if (grad.size() > 0)
      learn(row, i, rowExp(of(own, i).largest - largest) / sum + (loss - loss)); // perhaps NaN
  }

  KOKKOS_INLINE_FUNCTION const ClassSums& of(int part, std::int64_t i) const { return sums[part * rows + i]; }

  template <class Row>
  KOKKOS_INLINE_FUNCTION void learn(const Row& row, std::int64_t i, Real share) const {
    const std::int64_t count = grad.extent(1);
    const Real factor = weight.value(), largest = of(own, i).largest;
    const RowTarget wanted = target.ofRow(i);
    const Real* z = &logits(i, 0);
    Real* g = &grad(i, 0);
    if constexpr (Row::recomputes) {
      row.map(z, g, count, [=](Real logit, std::int64_t c) {
        return factor * (rowExp(logit - largest) * share - wanted.at(c));
      });
    } else {
      row.map(g, g, count, [=](Real kept, std::int64_t c) { return factor * (kept * share - wanted.at(c)); });
    }
  }
};

class DividedCrossEntropy : public Loss {
 public:
  DividedCrossEntropy(double smoothing, const ClassParts& classes, std::int64_t capacity)
      : _smoothing(static_cast<Real>(smoothing)), _classes(classes),
        _sums(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::DividedCrossEntropy::sums"),
              capacity * ClassParts::statistics * static_cast<std::int64_t>(classes.ranges.size())) {}

  void share(PartExchange& parts) override { _parts = &parts; }
  bool decodesInTraining() const override { return true; }

  void evaluateRows(const ExecSpace& space, const TypedMatrix& stored, const Targets& targets,
                    const DeviceFactor& weight, const TypedMatrix& stored_grad, Score& score) override {
    const Region region(space, "partita::DividedCrossEntropy", Phase::elementwise);
    const Matrix output = stored.real(), grad = stored_grad.real();
    const std::int64_t rows = output.extent(0), values = rows * ClassParts::statistics;
    const int parts = static_cast<int>(_classes.ranges.size()), own = _classes.own;
    const ClassTarget target{targets.distribution, targets.classes, _classes.ranges.back().end,
                             _classes.ranges[static_cast<std::size_t>(own)].begin,
                             grad.size() > 0 ? _smoothing : Real(0)};
    auto* const sums = reinterpret_cast<ClassSums*>(_sums.data());
    forEachRow(space, "partita::DividedCrossEntropy::own_kernel", rows, output.extent(1),
               OwnClassSums{output, grad, target, sums + own * rows});
    _parts->gather(space, Vector(_sums.data(), values * parts));
    forEachRow(space, "partita::DividedCrossEntropy::all_kernel", rows,
               grad.extent(1), // without one, a row is little work
               AllClassSums{sums, target, output, grad, score.perRow(), parts, own, rows, weight.inKernel()});
    score.accumulate(space, rows);
  }

 private:
  Real _smoothing;
  ClassParts _classes;
  Vector _sums;
  PartExchange* _parts = nullptr;
};

} // namespace

std::unique_ptr<Loss> makeDividedCrossEntropy(double label_smoothing, const ClassParts& classes,
                                              std::int64_t capacity) {
  return std::make_unique<DividedCrossEntropy>(label_smoothing, classes, capacity);
}

} // namespace partita
