#include "partita/train/time_reserve.hpp"

#include "support/catch.hpp"

namespace partita::test::train_time_reserve {

namespace {

/// A run of 1000 steps, with a clock that is set by hand.
struct Walk {
  explicit Walk(std::int64_t evaluate_every, const Position& start = {}, int turns = 1,
                std::int64_t per_epoch = 100)
      : length{1000, per_epoch, 12800, 0, turns}, position(start),
        reserve(length, start, evaluate_every, [this] { return now; }) {}
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  void wait(double seconds) {
    now += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  /// Returns the reserve after this step, which the run reaches in steps of one second.
  double at(std::int64_t step) {
    for (; position.step < step;) {
      ++position.step;
      wait(1.0);
      reserve.passed(position);
    }
    return reserve.seconds(0.0);
  }
  void evaluate(double seconds) {
    reserve.evaluates(0.0);
    wait(seconds);
    reserve.evaluated(seconds);
  }

  RunLength length;
  Clock::time_point now{};
  Position position;
  TimeReserve reserve;
};

} // namespace

TEST_CASE("A run reserves the time of an evaluation only shortly before it", "[train]") {
  Walk run(1);
  CHECK(run.at(99) == Approx(3.0)); // how long the first one takes is not known
  run.at(100);
  run.evaluate(300.0);
  CHECK(run.reserve.seconds(0.0) == Approx(3.0)); // it is over, and belongs to no step
  CHECK(run.at(101) == Approx(3.0));
  CHECK(run.at(190) == Approx(3.0));
  CHECK(run.at(197) == Approx(303.0));
  CHECK(run.reserve.seconds(10.0) == Approx(330.0)); // the slowest rank takes as long for a step
}

TEST_CASE("What is left of an evaluation counts once, and is no step", "[train]") {
  Walk run(1);
  run.at(100);
  run.evaluate(300.0);
  run.at(200);
  run.reserve.evaluates(0.0);
  CHECK(run.reserve.seconds(0.0) == Approx(303.0));
  run.wait(100.0);
  CHECK(run.reserve.seconds(100.0) == Approx(203.0)); // the slowest rank evaluates as well
  run.wait(250.0);
  CHECK(run.reserve.seconds(0.0) == Approx(3.0));
  run.reserve.evaluated(350.0);
  CHECK(run.at(201) == Approx(3.0));
  run.reserve.evaluates(10.0);
  CHECK(run.reserve.seconds(0.0) == Approx(30.0 + 350.0)); // as slow as it was before
}

TEST_CASE("During an evaluation the next one counts too if it may begin before ranks meet", "[train]") {
  Walk run(1, {}, 1, 2);
  run.at(2);
  run.evaluate(300.0);
  run.at(3);
  ++run.position.step;
  run.wait(1.0);
  run.reserve.evaluates(0.0);
  run.wait(100.0);
  CHECK(run.reserve.seconds(0.0) == Approx(3.0 + 200.0 + 300.0));
}

TEST_CASE("A first step that goes on counts with all of its time", "[train]") {
  Walk run(1);
  CHECK(run.reserve.seconds(0.0) == Approx(0.75)); // three times the shortest gap
  run.wait(200.0);
  CHECK(run.reserve.seconds(0.0) == Approx(600.0));
}

TEST_CASE("A run that continues within an epoch knows when the next evaluation comes", "[train]") {
  Walk run(1, {RunPhase::training, 0, 150});
  run.at(200);
  run.evaluate(300.0);
  CHECK(run.at(290) == Approx(3.0));
  CHECK(run.at(297) == Approx(303.0));
}

TEST_CASE("Stages in turns are each followed by an evaluation", "[train]") {
  Walk run(0, {RunPhase::training, 1, 990}, 3);
  CHECK(run.at(1000) == Approx(3.0));
  run.evaluate(20.0);
  run.position = {RunPhase::training, 2, 0};
  CHECK(run.at(1) == Approx(3.0));
  CHECK(run.at(990) == Approx(3.0));
  CHECK(run.at(998) == Approx(23.0));
}

TEST_CASE("The last step of a run is followed by an evaluation", "[train]") {
  Walk run(0);
  run.at(100);
  run.evaluate(20.0);
  CHECK(run.at(200) == Approx(3.0));
  CHECK(run.at(998) == Approx(23.0));
  CHECK(run.at(1000) == Approx(3.0)); // it is over when the run asks
}

TEST_CASE("Frequent results of fast workers hide no slow one", "[train]") {
  Walk run(1);
  constexpr double slow = 60.0;
  for (int i = 0; i < 100; ++i) {
    run.wait(0.1);
    run.reserve.passed(run.position, slow);
  }
  CHECK(run.reserve.seconds(0.0) == Approx(1.5 * slow));
  run.reserve.passed(run.position);
  CHECK(run.reserve.seconds(0.0) < 2.0);
}

} // namespace partita::test::train_time_reserve
