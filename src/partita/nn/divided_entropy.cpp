#include "partita/comm/part_exchange.hpp"
#include "partita/core/loops.hpp"
#include "partita/core/math.hpp"
#include "partita/core/region.hpp"
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

/// The classes of this part, and the target.
struct ClassTarget {
  Matrix distribution; ///< or empty
  Labels classes;
  std::int64_t all, first;
  Real smoothing;

  /// The target of class `first` + c in row i.
  KOKKOS_INLINE_FUNCTION Real at(std::int64_t i, std::int64_t c) const {
    const Real hard = distribution.size() > 0   ? distribution(i, first + c)
                      : classes(i) == first + c ? Real(1)
                                                : Real(0);
    return (1 - smoothing) * hard + smoothing / static_cast<Real>(all);
  }
};

/// Writes the sums of this part; with a gradient also exp(z - largest z of this part) in its place.
struct OwnClassSums {
  Matrix logits, grad;
  ClassTarget target;
  ClassSums* sums;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t count = logits.extent(1);
    const Real* z = &logits(i, 0);
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < count; ++c) best = z[c] > z[best] ? c : best;
    const Real largest = z[best];
    Real sum = 0, product = 0, mass = 0;
    if (grad.size() > 0) {
      Real* g = &grad(i, 0);
      PARTITA_INDEPENDENT
      for (std::int64_t c = 0; c < count; ++c) g[c] = rowExp(z[c] - largest);
      for (std::int64_t c = 0; c < count; ++c) sum += g[c];
    } else {
      for (std::int64_t c = 0; c < count; ++c) sum += rowExp(z[c] - largest);
    }
    if (target.distribution.size() > 0 || target.smoothing > 0) {
      for (std::int64_t c = 0; c < count; ++c) {
        product += target.at(i, c) * (z[c] - largest);
        mass += target.at(i, c);
      }
    } else {
      const std::int64_t own = target.classes(i) - target.first;
      if (own >= 0 && own < count) {
        product = z[own] - largest;
        mass = 1;
      }
    }
    sums[i] = {largest, target.classes(i) == target.first + best ? -sum : sum, product, mass};
  }
};

/// J = log sum exp z - <target, z> over all classes, and dJ/dz for the classes of this part. The
/// sums of part p begin at p x rows.
struct AllClassSums {
  const ClassSums* sums;
  ClassTarget target;
  Matrix grad;
  RowResults per_row;
  int parts, own;
  std::int64_t rows;
  KernelFactor weight;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
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
    const Real loss = log(sum) - product;
    per_row(i, 0) = loss;
    per_row(i, 1) = of(best, i).hits() ? Real(1) : Real(0);
    if (grad.size() > 0) learn(i, rowExp(of(own, i).largest - largest) / sum + (loss - loss)); // perhaps NaN
  }

  KOKKOS_INLINE_FUNCTION const ClassSums& of(int part, std::int64_t i) const { return sums[part * rows + i]; }

  KOKKOS_INLINE_FUNCTION void learn(std::int64_t i, Real share) const {
    const std::int64_t count = grad.extent(1);
    const Real factor = weight.value();
    Real* g = &grad(i, 0);
    for (std::int64_t c = 0; c < count; ++c) g[c] = factor * (g[c] * share - target.at(i, c));
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
    Kokkos::parallel_for("partita::DividedCrossEntropy::own_kernel", Range(space, 0, rows),
                         OwnClassSums{output, grad, target, sums + own * rows});
    _parts->gather(space, Vector(_sums.data(), values * parts));
    Kokkos::parallel_for(
        "partita::DividedCrossEntropy::all_kernel", Range(space, 0, rows),
        AllClassSums{sums, target, grad, score.perRow(), parts, own, rows, weight.inKernel()});
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
