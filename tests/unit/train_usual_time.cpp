#include "partita/train/usual_time.hpp"

#include "support/catch.hpp"

namespace partita::test::train_usual_time {

TEST_CASE("A run expects a slow task to be as slow again, but expects no second suspension", "[train]") {
  UsualTime steps;
  CHECK(!steps.known());
  CHECK(steps.counted(1000.0) == 1000.0); // any number of seconds may be usual
  for (const double seconds : {1000.0, 300.0, 0.5, 30.0, 250.0}) {
    steps.measured(seconds);
    CHECK(steps.known());
    CHECK(steps.last() == seconds);
  }
  steps.measured(0.5);
  constexpr double suspended = 36000.0;
  CHECK(steps.counted(suspended) == 60.0);
  steps.measured(suspended);
  CHECK(steps.last() == 60.0);
  for (const double seconds : {600.0, 6000.0, 36000.0}) { // now it takes so long each time
    steps.measured(suspended);
    CHECK(steps.last() == seconds);
  }
}

} // namespace partita::test::train_usual_time
