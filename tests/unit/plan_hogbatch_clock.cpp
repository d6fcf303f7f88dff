#include "partita/plan/hogbatch/virtual_clock.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "hogbatch_mixes.hpp"
#include "support/catch.hpp"

namespace partita::test::plan_hogbatch_clock {

namespace {

/// Replicas without overhead worth mentioning, with random speeds and bounds.
WorkerMix randomReplicas(unsigned seed) {
  Draws draws(seed);
  WorkerMix mix;
  mix.examples = 200000;
  const std::int64_t workers = draws.whole(2, 5);
  for (std::int64_t i = 0; i < workers; ++i) {
    const std::int64_t lower = draws.whole(1, 32), upper = lower * draws.whole(1, 32);
    const auto group = static_cast<std::size_t>(i);
    mix.groups.push_back({WorkerRole::replica, 1, lower, upper, draws.whole(lower, upper)});
    mix.workers.push_back({group, draws.scaled(1e-6, 1e-3), draws.scaled(1e3, 3e4), ""});
  }
  return mix;
}

/// Groups that update least often with the smallest batches, and most often with the largest.
std::pair<std::size_t, std::size_t> slowestAndFastest(const WorkerMix& mix) {
  std::size_t slow = 0, fast = 0;
  for (std::size_t i = 1; i < mix.groups.size(); ++i) {
    const auto lower = [&](std::size_t group) { return static_cast<double>(mix.groups[group].lower); };
    const auto upper = [&](std::size_t group) { return static_cast<double>(mix.groups[group].upper); };
    if (updateRate(mix, i, lower(i)) < updateRate(mix, slow, lower(slow))) slow = i;
    if (updateRate(mix, i, upper(i)) > updateRate(mix, fast, upper(fast))) fast = i;
  }
  return {slow, fast};
}

void checkSums(const WorkerMix& mix, const Course& course) {
  std::int64_t examples = 0, updates = 0;
  double shares = 0.0;
  for (const WorkerCourse& worker : course.workers) {
    examples += worker.examples;
    updates += worker.updates;
    CHECK(worker.busy <= course.seconds * (1.0 + 1e-12));
  }
  for (const double share : course.shares) shares += share;
  CHECK(examples % mix.examples == 0); // whole epochs
  CHECK(course.examples == examples);
  CHECK(shares == Approx(1.0));
  CHECK(updates > 0);
}

} // namespace

TEST_CASE("two replicas share the updates as the bounds allow") {
  for (const double ratio : {1.0, 2.0, 4.0, 8.0, 16.0}) {
    CAPTURE(ratio);
    const Course adaptive = playCourse(twoReplicas(ratio, WorkerRule::adaptive), 4);
    const Course fixed = playCourse(twoReplicas(ratio, WorkerRule::fixed), 4);
    CHECK(adaptive.shares[0] == Approx(0.5).margin(0.01));
    CHECK(fixed.shares[0] == Approx(1.0 / (1.0 + ratio)).margin(0.005));
    CHECK(slowShare(ratio, 16, 512) == 0.5);
  }
  CHECK(playCourse(twoReplicas(64.0, WorkerRule::adaptive), 4).shares[0] == Approx(1.0 / 3.0).margin(0.01));
  CHECK(slowShare(64.0, 16, 512) == Approx(1.0 / 3.0));
}

TEST_CASE("a processor and a device share the updates as published") {
  const std::vector<std::array<double, 3>> cases{// ratio, share, price of balance
                                                 {1, 0.902, 0.83},
                                                 {3, 0.797, 1.1},
                                                 {10, 0.673, 2.0},
                                                 {30, 0.605, 3.8}};
  for (const auto& [ratio, share, price] : cases) {
    CAPTURE(ratio);
    const WorkerMix mix = processorAndDevice(ratio, WorkerRule::adaptive);
    const Course adaptive = playCourse(mix, 10);
    const Course fixed = playCourse(processorAndDevice(ratio, WorkerRule::fixed), 1); // many small batches
    CHECK(adaptive.shares[0] == Approx(share).margin(0.02));
    CHECK(adaptiveBalance(mix).shares[0] == Approx(share).margin(0.02));
    CHECK_FALSE(adaptiveBalance(mix).equal);
    CHECK(fixed.shares[0] >= 0.9945); // 0.9948 by the formula at a ratio of 30
    CHECK(fixed.shares[0] == Approx(fixedBalance(mix).shares[0]).margin(0.001));
    CHECK(fixed.examplesPerSecond() / adaptive.examplesPerSecond() == Approx(price).margin(0.05));
    CHECK(priceOfBalance(mix) == Approx(price).margin(0.05));
    CHECK(adaptive.workers.front().batch_last == 64);
    CHECK(adaptive.workers.back().batch_last == 512);
    CHECK(adaptive.workers.back().stalenessMean() < 10.0);
    CHECK(fixed.workers.back().stalenessMean() > 100.0);
  }
  WorkerMix mix = processorAndDevice(10.0, WorkerRule::adaptive);
  mix.rules.beta = 0.5;
  CHECK(playCourse(mix, 10).shares[0] == Approx(0.507).margin(0.02));
}

TEST_CASE("closed forms agree with the clock for any mix of replicas") {
  int equal = 0, bounded = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    WorkerMix mix = randomReplicas(seed);
    const Balance expected = adaptiveBalance(mix);
    const Course adaptive = playCourse(mix, 4);
    checkSums(mix, adaptive);
    ++(expected.equal ? equal : bounded);
    const auto [slow, fast] = slowestAndFastest(mix);
    const double least = adaptive.shares[slow], most = adaptive.shares[fast];
    if (!expected.equal)
      CHECK(least / most == Approx(expected.shares[slow] / expected.shares[fast]).margin(0.04));
    for (std::size_t i = 0; i < mix.groups.size(); ++i) {
      if (expected.equal || mix.groups.size() == 2)
        CHECK(adaptive.shares[i] == Approx(expected.shares[i]).margin(0.02));
      CHECK(adaptive.shares[i] > least - 0.02); // where those between the two end depends on the course
      CHECK(adaptive.shares[i] < most + 0.02);
    }
  }
  CHECK(equal > 5);
  CHECK(bounded > 5);
}

TEST_CASE("with bounded growth, shares are as equal as sizes that double allow") {
  int equal = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    WorkerMix mix = randomReplicas(seed);
    mix.rules.growth = BatchGrowth::bounded;
    if (!adaptiveBalance(mix).equal) continue;
    ++equal;
    const std::vector<double> shares = playCourse(mix, 40).shares;
    CHECK(*std::max_element(shares.begin(), shares.end()) <
          mix.rules.factor * *std::min_element(shares.begin(), shares.end()));
  }
  CHECK(equal > 10);
}

TEST_CASE("epochs that are too short for all workers are of use to all") {
  for (const WorkerRule rule : {WorkerRule::fixed, WorkerRule::adaptive}) {
    WorkerMix mix = twoReplicas(1.0, rule);
    mix.groups.push_back(mix.groups.front());
    mix.workers.push_back({2, 1e-5, 1000.0, "third"});
    mix.examples = 100; // of which two workers get 64 and 36
    const Course course = playCourse(mix, 300);
    checkSums(mix, course);
    for (const WorkerCourse& worker : course.workers) CHECK(worker.examples > 5000);
  }
}

TEST_CASE("fixed sizes have the shares and the speed of the formula") {
  for (unsigned seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    WorkerMix mix = randomReplicas(seed);
    mix.rules.rule = WorkerRule::fixed;
    const Balance expected = fixedBalance(mix);
    const Course course = playCourse(mix, 1);
    checkSums(mix, course);
    for (std::size_t i = 0; i < mix.groups.size(); ++i)
      CHECK(course.shares[i] == Approx(expected.shares[i]).margin(0.01));
    // at the end of the epoch they wait for the last batch
    CHECK(course.examplesPerSecond() <= expected.examples_per_second * (1.0 + 1e-9));
    CHECK(course.examplesPerSecond() >= expected.examples_per_second * 0.85);
  }
}

TEST_CASE("an update of one of W equal replicas is W - 1 updates old") {
  for (const std::size_t workers : {1, 2, 3, 5, 8}) {
    WorkerMix mix;
    mix.rules.rule = WorkerRule::fixed;
    mix.examples = 10007;
    mix.groups.assign(workers, {WorkerRole::replica, 1, 1, 16, 16});
    for (std::size_t i = 0; i < workers; ++i) mix.workers.push_back({i, 1e-4, 1000.0, ""});
    const Course course = playCourse(mix, 2);
    CHECK(course.stalenessMean() == Approx(static_cast<double>(workers) - 1.0).margin(0.1));
    CHECK(course.stalenessMax() < 2 * static_cast<std::int64_t>(workers));
  }
}

TEST_CASE("stale updates count less, or not at all") {
  WorkerMix mix = twoReplicas(8.0, WorkerRule::fixed);
  const Course all = playCourse(mix, 1);
  mix.staleness.rule = StalenessRule::scale;
  const Course scaled = playCourse(mix, 1);
  CHECK(scaled.progress < all.progress - 100.0); // the slow one is eight updates late
  CHECK(scaled.stalenessMax() == all.stalenessMax());
  mix.staleness = {StalenessRule::ringmaster, 4};
  const Course dropped = playCourse(mix, 1);
  CHECK(dropped.workers[0].updates == 0);
  CHECK(dropped.workers[0].dropped > 100);
  CHECK(dropped.shares[0] == 0.0);
  checkSums(mix, dropped);
  mix.staleness.bound = 100;
  CHECK(playCourse(mix, 1).progress == all.progress);
}

TEST_CASE("the rate counts as progress") {
  WorkerMix mix = twoReplicas(1.0, WorkerRule::fixed);
  mix.examples = 6400;
  CHECK(playCourse(mix, 1).progress == Approx(100.0));
  mix.rate = {32.0, 0.0};
  CHECK(playCourse(mix, 1).progress == Approx(200.0));
  mix.rate.cap = 1.5;
  CHECK(playCourse(mix, 1).progress == Approx(150.0));
}

TEST_CASE("shared workers of unequal speed balance with a device as their sum does") {
  WorkerMix mix = processorAndDevice(3.0, WorkerRule::adaptive);
  mix.groups[0].workers = 4;
  const WorkerSpeed device = mix.workers.back();
  mix.workers.clear();
  for (const double speed : {2500.0, 2500.0, 7500.0, 7500.0}) mix.workers.push_back({0, 0.0, speed, "core"});
  mix.workers.push_back(device);
  const Course course = playCourse(mix, 10);
  checkSums(mix, course);
  CHECK(course.shares[0] == Approx(adaptiveBalance(mix).shares[0]).margin(0.02));
  CHECK(course.workers[2].batches > 2 * course.workers[0].batches);
}

TEST_CASE("the proportional rule brings the numbers of updates together") {
  WorkerMix mix = twoReplicas(4.0, WorkerRule::proportional);
  const Course course = playCourse(mix, 10);
  checkSums(mix, course);
  CHECK(course.shares[0] > 0.4);
  CHECK(course.workers[1].batch_last > 2 * course.workers[0].batch_last);
}

TEST_CASE("in step, workers need the same time") {
  WorkerMix mix = twoReplicas(7.0, WorkerRule::synchronous);
  mix.rules.batch = 128;
  const Course course = playCourse(mix, 2);
  checkSums(mix, course);
  CHECK(course.workers[0].batch_last == 16);
  CHECK(course.workers[1].batch_last == 112);
  CHECK(course.workers[0].busy == Approx(course.seconds).epsilon(0.01));
  CHECK(course.workers[1].busy == Approx(course.seconds).epsilon(0.01));
  CHECK(course.examplesPerSecond() == Approx(8000.0).epsilon(0.01));
  CHECK(course.stalenessMax() == 0);
}

TEST_CASE("in step, workers change the model one after another") {
  WorkerMix mix = twoReplicas(1.0, WorkerRule::synchronous);
  mix.rules.batch = 100;
  for (WorkerSpeed& worker : mix.workers) {
    worker.overhead += 0.003;
    worker.merge = 0.003;
    worker.order = 0.002;
  }
  const Course course = playCourse(mix, 1);
  const double gradient = 1e-5 + 0.05, turn = 0.005;
  CHECK(course.seconds == Approx(1000 * (gradient + 2 * turn)));
  CHECK(course.workers[0].busy == Approx(1000 * (gradient + turn)));
  mix.rules.rule = WorkerRule::fixed; // at the same time, and without another order
  const double batches = 100000.0 / 2 / 64;
  CHECK(playCourse(mix, 1).seconds == Approx(batches * (1e-5 + 0.064 + 0.003)).epsilon(0.01));
}

TEST_CASE("the updates of a course are in their order, and each example is in one of them") {
  WorkerMix mix = twoReplicas(7.0, WorkerRule::adaptive);
  mix.examples = 5001;
  mix.staleness = {StalenessRule::ringmaster, 1};
  mix.rate = {64.0, 0.0};
  std::vector<TimedUpdate> updates;
  const Course course = playCourse(mix, 3, &updates);
  std::vector<int> seen(3 * 5001, 0);
  std::int64_t version = 0, dropped = 0;
  double progress = 0.0, now = 0.0;
  for (const TimedUpdate& update : updates) {
    CHECK(update.seconds >= now);
    now = update.seconds;
    for (std::int64_t i = 0; i < update.count; ++i)
      ++seen[static_cast<std::size_t>(update.epoch * 5001 + update.first + i)];
    progress += update.factor;
    if (update.applied < 0) {
      ++dropped;
      CHECK(version - update.read > 1);
      continue;
    }
    CHECK(update.applied == version++);
    CHECK(update.read <= update.applied);
    CHECK(update.factor == static_cast<double>(update.count) / 64.0);
  }
  CHECK(std::count(seen.begin(), seen.end(), 1) == 3 * 5001);
  CHECK(now == course.seconds);
  CHECK(dropped > 0);
  CHECK(dropped == course.workers[0].dropped + course.workers[1].dropped);
  CHECK(progress == Approx(course.progress));
}

} // namespace partita::test::plan_hogbatch_clock
