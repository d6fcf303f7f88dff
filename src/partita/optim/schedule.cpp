#include "partita/optim/schedule.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

namespace {

/// Progress 0..1 after the warm-up, or the factor during the warm-up.
struct Progress {
  bool warming;
  double value;
};

Progress progressAt(const OptimiserSection& optimiser, std::int64_t step, std::int64_t steps) {
  const std::int64_t warmup = std::min(optimiser.warmup_steps, steps);
  if (step < warmup) return {true, static_cast<double>(step + 1) / static_cast<double>(warmup)};
  return {false, static_cast<double>(step - warmup) /
                     static_cast<double>(std::max<std::int64_t>(1, steps - warmup))};
}

} // namespace

double learningRate(const OptimiserSection& optimiser, std::int64_t step, std::int64_t steps,
                    std::int64_t steps_per_epoch) {
  const double base = optimiser.learning_rate;
  const Progress progress = progressAt(optimiser, step, steps);
  if (progress.warming) return base * progress.value;
  switch (optimiser.schedule) {
  case ScheduleKind::step: {
    const std::int64_t drops = step / std::max<std::int64_t>(1, optimiser.step_epochs * steps_per_epoch);
    return base * std::pow(optimiser.step_factor, static_cast<double>(drops));
  }
  case ScheduleKind::cosine: {
    const double wave = 0.5 * (1.0 + std::cos(3.14159265358979323846 * progress.value));
    return base * (optimiser.final_fraction + (1.0 - optimiser.final_fraction) * wave);
  }
  case ScheduleKind::constant:
    break;
  }
  return base;
}

double heldLearningRate(const OptimiserSection& optimiser, std::int64_t step, std::int64_t steps) {
  const Progress progress = progressAt(optimiser, step, steps);
  return optimiser.learning_rate * (progress.warming ? progress.value : 1.0 - std::pow(progress.value, 4));
}

} // namespace partita
