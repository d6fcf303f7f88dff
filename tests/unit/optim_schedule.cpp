#include "partita/optim/optimiser.hpp"

#include "support/catch.hpp"

namespace partita::test::optim_schedule {

namespace {

OptimiserSection section(ScheduleKind kind) {
  OptimiserSection optimiser;
  optimiser.learning_rate = 0.1;
  optimiser.schedule = kind;
  return optimiser;
}

} // namespace

TEST_CASE("A constant rate is constant", "[optim]") {
  const OptimiserSection optimiser = section(ScheduleKind::constant);
  for (const std::int64_t step : {0, 1, 50, 99}) CHECK(learningRate(optimiser, step, 100, 10) == 0.1);
}

TEST_CASE("Warm-up rises linearly and ends at the full rate", "[optim]") {
  for (const ScheduleKind kind : {ScheduleKind::constant, ScheduleKind::step, ScheduleKind::cosine}) {
    OptimiserSection optimiser = section(kind);
    optimiser.warmup_steps = 4;
    for (const std::int64_t step : {0, 1, 2, 3})
      CHECK(learningRate(optimiser, step, 100, 10) == Approx(0.025 * static_cast<double>(step + 1)));
    CHECK(learningRate(optimiser, 4, 100, 10) == Approx(0.1));
    optimiser.warmup_steps = 1000; // longer than the run, which is all warm-up
    CHECK(learningRate(optimiser, 99, 100, 10) == Approx(0.1));
  }
}

TEST_CASE("A stepped rate drops after whole epochs", "[optim]") {
  OptimiserSection optimiser = section(ScheduleKind::step);
  optimiser.step_epochs = 2;
  optimiser.step_factor = 0.5;
  CHECK(learningRate(optimiser, 0, 100, 10) == 0.1);
  CHECK(learningRate(optimiser, 19, 100, 10) == 0.1);
  CHECK(learningRate(optimiser, 20, 100, 10) == Approx(0.05));
  CHECK(learningRate(optimiser, 39, 100, 10) == Approx(0.05));
  CHECK(learningRate(optimiser, 99, 100, 10) == Approx(0.1 / 16));
}

TEST_CASE("A cosine falls from the full rate to its final fraction", "[optim]") {
  OptimiserSection optimiser = section(ScheduleKind::cosine);
  CHECK(learningRate(optimiser, 0, 100, 10) == 0.1);
  CHECK(learningRate(optimiser, 50, 100, 10) == Approx(0.05));
  CHECK(learningRate(optimiser, 99, 100, 10) == Approx(0.05 * (1 + std::cos(0.99 * 3.14159265358979))));
  optimiser.final_fraction = 0.2;
  CHECK(learningRate(optimiser, 0, 100, 10) == Approx(0.1));
  CHECK(learningRate(optimiser, 50, 100, 10) == Approx(0.06));
  CHECK(learningRate(optimiser, 100, 100, 10) == Approx(0.02));
  optimiser.warmup_steps = 20; // the wave begins after the warm-up
  CHECK(learningRate(optimiser, 60, 100, 10) == Approx(0.06));
}

TEST_CASE("A run of one step has a rate", "[optim]") {
  CHECK(learningRate(section(ScheduleKind::cosine), 0, 1, 1) == 0.1);
  OptimiserSection optimiser = section(ScheduleKind::cosine);
  optimiser.warmup_steps = 1;
  CHECK(learningRate(optimiser, 0, 1, 1) == 0.1);
}

TEST_CASE("A held rate stays up for most of the run and ends where the cosine does", "[optim]") {
  OptimiserSection optimiser = section(ScheduleKind::cosine);
  CHECK(heldLearningRate(optimiser, 0, 100) == 0.1);
  CHECK(heldLearningRate(optimiser, 50, 100) == Approx(0.1 * 15 / 16));
  CHECK(heldLearningRate(optimiser, 100, 100) == 0.0);
  optimiser.warmup_steps = 20;
  CHECK(heldLearningRate(optimiser, 9, 100) == Approx(0.05));
  CHECK(heldLearningRate(optimiser, 20, 100) == 0.1);
  CHECK(heldLearningRate(optimiser, 60, 100) == Approx(0.1 * 15 / 16));
  optimiser.final_fraction = 0.2;
  CHECK(heldLearningRate(optimiser, 9, 100) == Approx(0.05));
  CHECK(heldLearningRate(optimiser, 20, 100) == Approx(0.1));
  CHECK(heldLearningRate(optimiser, 60, 100) == Approx(0.1 * (0.2 + 0.8 * 15 / 16)));
  CHECK(heldLearningRate(optimiser, 100, 100) == Approx(0.02));
}

} // namespace partita::test::optim_schedule
