#include "partita/optim/step_gate.hpp"

#include "partita/core/math.hpp"
#include "partita/core/region.hpp"
#include "partita/core/rows.hpp"

#include <utility>

namespace partita {

namespace {

struct Decide {
  const double* squares;
  std::int64_t tensors;
  double rate, beta1, beta2;
  StepNumbers* numbers;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t, const Row& row) const {
    const double* own = squares;
    const double sum = row.sumStrided(tensors, [=](std::int64_t t) { return own[t]; });
    const Decide local = *this;
    row.once([=]() { local.note(sum - sum == 0.0); });
  }

 private:
  KOKKOS_INLINE_FUNCTION void note(bool finite) const {
    StepNumbers& n = *numbers;
    n.left_out = finite ? 0 : 1;
    n.scale.count(finite);
    if (n.scale.overflows > n.longest_run) n.longest_run = n.scale.overflows;
    n.taken += finite ? 1 : 0;
    const auto t = static_cast<double>(n.taken);
    n.rate = static_cast<Real>(rate / (1.0 - pow(beta1, t)));
    n.inverse_correction2 = static_cast<Real>(1.0 / (1.0 - pow(beta2, t)));
  }
};

struct Restore {
  const StepNumbers* numbers;
  Real* values;
  const Real* kept;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    if (numbers->left_out != 0) values[i] = kept[i];
  }
};

} // namespace

StepGate::StepGate(OptimiserSection section, const StepNumbers& numbers)
    : _section(std::move(section)), _numbers("partita::StepGate::numbers", 1),
      _host("partita::StepGate::host", 1) {
  set(ExecSpace(), numbers);
}

/// A kernel brings the numbers along, so that nothing waits until they are copied.
void StepGate::set(const ExecSpace& space, const StepNumbers& numbers) {
  const auto own = _numbers;
  Kokkos::parallel_for(
      "partita::StepGate::set_kernel", Range(space, 0, 1), KOKKOS_LAMBDA(std::int64_t) { own(0) = numbers; });
}

void StepGate::decide(const ExecSpace& space, const GradientNorm& norm, double rate) {
  const Region region(space, "partita::StepGate::decide", Phase::optimiser);
  forEachRow(
      space, "partita::StepGate::decide_kernel", 1, norm.tensors(),
      Decide{norm.deviceSquares(), norm.tensors(), rate, _section.beta1, _section.beta2, _numbers.data()});
}

StepNumbers StepGate::read(const ExecSpace& space) const {
  Kokkos::deep_copy(space, _host, _numbers);
  fence(space, "partita::StepGate::read");
  return _host(0);
}

void restoreIfLeftOut(const ExecSpace& space, const StepNumbers* numbers, const Vector& values,
                      const Vector& kept) {
  forEachValue(space, "partita::restoreIfLeftOut", static_cast<std::int64_t>(values.extent(0)),
               Restore{numbers, values.data(), kept.data()});
}

} // namespace partita
