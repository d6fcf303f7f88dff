#include "partita/optim/loss_scale.hpp"

#include "support/catch.hpp"

namespace partita::test::optim_loss_scale {

namespace {

void takeSteps(LossScale& scale, std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i) scale.count(true);
}

} // namespace

TEST_CASE("The loss scale doubles after 200 clean steps and halves at each overflow", "[optim]") {
  LossScale scale(true);
  CHECK(scale.value == 65536.0);
  takeSteps(scale, 199);
  CHECK(scale.value == 65536.0);
  CHECK(scale.clean == 199);
  scale.count(true);
  CHECK(scale.value == 131072.0);
  CHECK(scale.clean == 0);
  takeSteps(scale, 150);
  scale.count(false);
  CHECK(scale.value == 65536.0);
  CHECK(scale.overflows == 1);
  takeSteps(scale, 199); // counted from the overflow
  CHECK(scale.value == 65536.0);
  CHECK(scale.overflows == 0);
}

TEST_CASE("The loss scale stays within its range", "[optim]") {
  LossScale scale(true);
  for (int i = 0; i < 20; ++i) scale.count(false);
  CHECK(scale.value == 1024.0);
  CHECK(scale.overflows == 20);
  takeSteps(scale, 20 * 200);
  CHECK(scale.value == 16777216.0);
}

TEST_CASE("Without scaling the factor stays at one", "[optim]") {
  LossScale scale(false);
  takeSteps(scale, 500);
  CHECK(scale.value == 1.0);
  scale.count(false);
  CHECK(scale.value == 1.0);
  CHECK(scale.overflows == 1);
  scale.resume(4096.0, 3);
  CHECK(scale.value == 1.0);
}

TEST_CASE("A loss scale continues from its last value", "[optim]") {
  LossScale before(true);
  before.count(false);
  takeSteps(before, 17);
  LossScale after(true);
  after.resume(before.value, before.clean);
  takeSteps(before, 183);
  takeSteps(after, 183);
  CHECK(after.value == before.value);
  CHECK(after.value == 65536.0);
  LossScale fresh(true);
  fresh.resume(1.0, 12); // from a run in single precision
  CHECK(fresh.value == 65536.0);
  CHECK(fresh.clean == 0);
}

} // namespace partita::test::optim_loss_scale
