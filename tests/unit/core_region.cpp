#include "partita/core/clock.hpp"
#include "partita/core/region.hpp"

#include <chrono>
#include <thread>

#include "support/catch.hpp"

namespace partita::test::core_region {

namespace {

void sleepFor(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

double secondsOf(Phase phase) {
  return PhaseTimes::seconds()[static_cast<std::size_t>(phase)];
}

/// Phase times that are measured for the lifetime of the object.
struct Measured {
  Measured() {
    PhaseTimes::enable(true);
    PhaseTimes::reset();
  }
  ~Measured() { PhaseTimes::enable(false); }
};

} // namespace

TEST_CASE("Communication within another phase does not count as that phase", "[core]") {
  const Measured measured;
  const ExecSpace space;
  const auto start = Clock::now();
  {
    const Region outer(space, "partita::test::outer", Phase::elementwise);
    const Region product(space, "partita::test::product", Phase::gemm); // counts as the outer phase
    sleepFor(0.02);
    const Region inner(space, "partita::test::inner", Phase::communication);
    sleepFor(0.03);
  }
  const double all = secondsSince(start);
  CHECK(secondsOf(Phase::communication) >= 0.03);
  CHECK(secondsOf(Phase::elementwise) >= 0.02);
  CHECK(secondsOf(Phase::gemm) == 0.0);
  CHECK(secondsOf(Phase::communication) + secondsOf(Phase::elementwise) <= all);
  CHECK(PhaseTimes::counted() == Approx(secondsOf(Phase::communication) + secondsOf(Phase::elementwise)));
}

TEST_CASE("An evaluation and a checkpoint count as a whole", "[core]") {
  const ExecSpace space;
  for (const Phase phase : {Phase::evaluation, Phase::checkpoint}) {
    const Measured measured;
    {
      const Region outer(space, "partita::test::whole", phase);
      const Region inner(space, "partita::test::message", Phase::communication);
      sleepFor(0.01);
      PhaseTimes::add(Phase::waiting, 0.005, PhaseTimes::counted());
    }
    CHECK(secondsOf(phase) >= 0.01);
    CHECK(secondsOf(phase) == PhaseTimes::counted());
    { const Region after(space, "partita::test::after", Phase::communication); }
    CHECK(secondsOf(Phase::communication) > 0.0);
  }
}

TEST_CASE("A time that contains another phase counts without it", "[core]") {
  const Measured measured;
  PhaseTimes::add(Phase::data, 1.0, PhaseTimes::counted());
  const double before = PhaseTimes::counted();
  PhaseTimes::add(Phase::gemm, 2.0, before);
  PhaseTimes::add(Phase::waiting, 5.0, before); // the product was computed during this wait
  CHECK(secondsOf(Phase::waiting) == 3.0);
  CHECK(PhaseTimes::counted() == 6.0);
}

TEST_CASE("Phases of other threads are not measured, nor any without timing", "[core]") {
  const Measured measured;
  std::thread([] { PhaseTimes::add(Phase::waiting, 1.0, 0.0); }).join();
  CHECK(PhaseTimes::counted() == 0.0);
  PhaseTimes::enable(false);
  PhaseTimes::add(Phase::waiting, 1.0, 0.0);
  { const Region region(ExecSpace(), "partita::test::off", Phase::communication); }
  CHECK(PhaseTimes::counted() == 0.0);
}

} // namespace partita::test::core_region
