#pragma once

#include "partita/config/run_config.hpp"
#include "partita/optim/gradient_norm.hpp"

namespace partita {

/// What a device knows of the steps of a stage.
struct StepNumbers {
  std::int32_t left_out = 0;             ///< 1: the current step is
  std::int32_t run = 0, longest_run = 0; ///< steps left out one after another
  std::int64_t taken = 0;
  Real rate = 0, inverse_correction2 = 0; ///< of Adam, which count the steps that were taken
};

/// Decides on the device whether a step is left out because its gradient is not finite, so that the
/// host does not wait for it in each step. Only where all ranks that decide see the same gradient, and
/// without a loss scale, which the host must know before the next step.
class StepGate {
 public:
  explicit StepGate(OptimiserSection section);

  /// Continues after steps that were taken.
  void start(std::int64_t taken);
  /// Decides on the step whose gradient was measured.
  void decide(const ExecSpace& space, const GradientNorm& norm, double rate);
  const StepNumbers* numbers() const { return _numbers.data(); } ///< on the device
  StepNumbers read(const ExecSpace& space) const;                ///< waits for the device

 private:
  OptimiserSection _section;
  Kokkos::View<StepNumbers*, MemSpace> _numbers;
  Kokkos::View<StepNumbers*, PinnedSpace> _host;
};

/// values = kept if the step is left out.
void restoreIfLeftOut(const ExecSpace& space, const StepNumbers* numbers, const Vector& values,
                      const Vector& kept);

} // namespace partita
