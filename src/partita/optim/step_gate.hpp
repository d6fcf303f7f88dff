#pragma once

#include "partita/config/run_config.hpp"
#include "partita/optim/gradient_norm.hpp"
#include "partita/optim/loss_scale.hpp"

namespace partita {

/// What a device knows of the steps of a stage.
struct StepNumbers {
  std::int32_t left_out = 0;    ///< 1: the current step is
  std::int64_t longest_run = 0; ///< of steps left out one after another
  std::int64_t taken = 0;
  LossScale scale = {};                   ///< for the next step
  Real rate = 0, inverse_correction2 = 0; ///< of Adam, which count the steps that were taken
};

/// Decides on the device whether a step is left out because its gradient is not finite, and on the
/// loss scale, so that the host does not wait for it in each step. Used only where all ranks that
/// decide see the same gradient; otherwise the host decides and sets the numbers.
class StepGate {
 public:
  explicit StepGate(OptimiserSection section, const StepNumbers& numbers = {});

  void set(const ExecSpace& space, const StepNumbers& numbers);
  /// Decides on the step whose gradient was measured, and changes the scale.
  void decide(const ExecSpace& space, const GradientNorm& norm, double rate);
  const StepNumbers* numbers() const { return _numbers.data(); } ///< on the device
  StepNumbers read(const ExecSpace& space) const;                ///< waits for the device
  DeviceFactor scale() const { return {1, &numbers()->scale.value}; }
  DeviceFactor inverseScale() const { return {1, &numbers()->scale.inverse}; }

 private:
  OptimiserSection _section;
  Kokkos::View<StepNumbers*, MemSpace> _numbers;
  Kokkos::View<StepNumbers*, PinnedSpace> _host;
};

/// values = kept if the step is left out.
void restoreIfLeftOut(const ExecSpace& space, const StepNumbers* numbers, const Vector& values,
                      const Vector& kept);

} // namespace partita
