#include "partita/plan/hogbatch/batch_controller.hpp"
#include "partita/plan/hogbatch/update_scale.hpp"
#include "partita/plan/hogbatch/virtual_clock.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>

#include "hogbatch_mixes.hpp"
#include "support/catch.hpp"

namespace partita::test::plan_hogbatch_controller {

namespace {

BatchRules rulesOf(WorkerRule rule, double factor = 2.0) {
  BatchRules rules;
  rules.rule = rule;
  rules.factor = factor;
  return rules;
}

WorkerGroup replica(std::int64_t lower, std::int64_t upper, std::int64_t start) {
  return {WorkerRole::replica, 1, lower, upper, start};
}

/// The adaptive rule of decks.
BatchRules bounded() {
  BatchRules rules = rulesOf(WorkerRule::adaptive);
  rules.growth = BatchGrowth::bounded;
  return rules;
}

/// One update of a replica.
void update(BatchController& controller, std::size_t group) {
  controller.finished(group, {true, controller.size(group), controller.size(group), 1.0});
}

std::vector<std::int64_t> sizesOf(const BatchController& controller) {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < controller.groups(); ++i) sizes.push_back(controller.size(i));
  return sizes;
}

/// Size of a group after its batch, when it and the others have made these numbers of updates.
std::int64_t sizeAfter(double own, const std::vector<double>& others, double factor, std::int64_t size) {
  BatchController controller(rulesOf(WorkerRule::adaptive, factor),
                             std::vector<WorkerGroup>(others.size() + 1, replica(16, 512, size)));
  std::vector<GroupState> state = controller.state();
  state[0].updates = own - 1.0;
  for (std::size_t i = 0; i < others.size(); ++i) state[i + 1].updates = others[i];
  controller.restore(state);
  update(controller, 0);
  return controller.size(0);
}

} // namespace

TEST_CASE("the adaptive rule doubles the batch of who is ahead and halves that of who is behind") {
  for (const double factor : {2.0, 4.0}) {
    const auto alpha = static_cast<std::int64_t>(factor);
    CHECK(sizeAfter(3, {5}, factor, 64) == 64 / alpha); // behind
    CHECK(sizeAfter(5, {3}, factor, 64) == 64 * alpha); // ahead
    CHECK(sizeAfter(5, {5}, factor, 64) == 64);         // a tie
    CHECK(sizeAfter(3, {5, 4}, factor, 64) == 64 / alpha);
    CHECK(sizeAfter(5, {4, 3}, factor, 64) == 64 * alpha);
    CHECK(sizeAfter(4, {5, 3}, factor, 64) == 64); // between the others
    CHECK(sizeAfter(3, {5, 3}, factor, 64) == 64); // with the last
    CHECK(sizeAfter(5, {5, 3}, factor, 64) == 64); // with the first
  }
}

TEST_CASE("sizes stay within their bounds") {
  CHECK(sizeAfter(3, {5}, 2.0, 16) == 16);
  CHECK(sizeAfter(3, {5}, 4.0, 32) == 16);
  CHECK(sizeAfter(5, {3}, 2.0, 512) == 512);
  CHECK(sizeAfter(5, {3}, 4.0, 300) == 512);
  CHECK(sizeAfter(5, {3}, 1.001, 20) == 21); // a factor near 1 still changes small sizes
  CHECK(sizeAfter(3, {5}, 1.001, 20) == 19);
  CHECK(sizeAfter(5, {3}, 1e300, 20) == 512);
}

TEST_CASE("batches that are bounded together change only if chance does not explain the difference") {
  BatchController controller(bounded(), {replica(16, 512, 64), replica(16, 512, 64)});
  for (int lap = 0; lap < 200; ++lap) { // three updates to two, or two to three
    for (int i = 0; i < 3; ++i) update(controller, lap % 2);
    for (int i = 0; i < 2; ++i) update(controller, 1 - lap % 2);
  }
  CHECK(sizesOf(controller) == std::vector<std::int64_t>{64, 64});
  for (int i = 0; i < 1000; ++i) update(controller, 0); // the other one waits for something
  update(controller, 1);
  CHECK(sizesOf(controller) == std::vector<std::int64_t>{64, 64});
}

TEST_CASE("one long wait is no reason to change a batch, and two are") {
  BatchController controller(bounded(), {replica(16, 512, 64), replica(16, 512, 64)});
  for (int i = 0; i < 100; ++i) update(controller, 0);
  update(controller, 1);
  CHECK(controller.size(1) == 64);
  for (int i = 0; i < 100; ++i) update(controller, 0);
  update(controller, 1);
  CHECK(sizesOf(controller) == std::vector<std::int64_t>{64, 32});
}

TEST_CASE("batches that are bounded together grow only if none grows beyond the sum of the first ones") {
  BatchController controller(bounded(), {replica(16, 512, 64), replica(16, 512, 64)});
  /// Eight updates of one worker to one of the other, until a size changes.
  const auto next = [&](std::size_t ahead) {
    const std::vector<std::int64_t> before = sizesOf(controller);
    for (int lap = 0; lap < 10 && sizesOf(controller) == before; ++lap) {
      for (int i = 0; i < 8; ++i) update(controller, ahead);
      update(controller, 1 - ahead);
    }
    return sizesOf(controller);
  };
  CHECK(next(0) == std::vector<std::int64_t>{64, 32}); // 128 + 64 would be more than 64 + 64
  CHECK(next(0) == std::vector<std::int64_t>{64, 16});
  CHECK(next(0) == std::vector<std::int64_t>{128, 16}); // the other one cannot shrink
  CHECK(next(0) == std::vector<std::int64_t>{256, 16});
  CHECK(next(1) == std::vector<std::int64_t>{128, 16}); // 256 + 32 are too many
  CHECK(next(1) == std::vector<std::int64_t>{64, 16});
  CHECK(next(1) == std::vector<std::int64_t>{64, 32}); // who is ahead grows before who is behind shrinks
  CHECK(next(1) == std::vector<std::int64_t>{64, 64});
}

TEST_CASE("batches of a size before the last change do not count") {
  BatchController controller(bounded(), {replica(16, 512, 64), replica(16, 512, 64)});
  while (controller.size(1) == 64) {
    for (int i = 0; i < 8; ++i) update(controller, 0);
    update(controller, 1);
  }
  for (int lap = 0; lap < 30; ++lap) { // got in advance
    for (int i = 0; i < 8; ++i) update(controller, 0);
    controller.finished(1, {true, 64, 64, 1.0});
  }
  CHECK(controller.size(1) == 32);
}

TEST_CASE("updates that are reported together change a size once, and count once where chance matters") {
  // Workers of equal speed report 12 batches at a time.
  BatchController equal(bounded(), {replica(16, 512, 64), replica(16, 512, 64)});
  const auto report = [](BatchController& controller, std::size_t group, std::int64_t batches) {
    for (std::int64_t i = 1; i <= batches; ++i)
      controller.finished(group, {true, controller.size(group), controller.size(group), 1.0, i < batches});
  };
  report(equal, 0, 12);
  for (std::size_t i = 0; i < 200; ++i) {
    report(equal, 1, 12);
    if (i % 3 != 0) report(equal, 0, 12); // sometimes two reports at once
    if (i % 3 == 1) report(equal, 0, 12);
  }
  CHECK(sizesOf(equal) == std::vector<std::int64_t>{64, 64});
  // A worker that is four times as fast does so four times as often.
  BatchController unequal(bounded(), {replica(16, 512, 64), replica(16, 512, 64)});
  for (std::size_t lap = 0; lap < 6; ++lap) {
    for (std::size_t i = 0; i < 4; ++i) report(unequal, 0, 12);
    report(unequal, 1, 12);
  }
  CHECK(unequal.size(1) < 64);
  // The published rule changes a size at each report.
  BatchController published(rulesOf(WorkerRule::adaptive), {replica(16, 512, 64), replica(16, 512, 64)});
  report(published, 0, 12);
  CHECK(published.size(0) == 128);
}

TEST_CASE("old differences are forgotten") {
  BatchController controller(bounded(), {replica(16, 512, 64), replica(16, 512, 64)});
  for (int lap = 0; lap < 5000; ++lap)
    for (const std::size_t group : {0, 1}) update(controller, group);
  int laps = 0;
  for (; controller.size(1) == 64 && laps < 1000; ++laps) // now half as fast
    for (const std::size_t group : {0, 0, 1}) update(controller, group);
  CHECK(laps < 150);
}

TEST_CASE("equal workers keep their batches, whatever they wait for") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    WorkerMix mix = twoReplicas(1.0, WorkerRule::adaptive);
    if (seed % 2 == 1) {
      mix.groups.push_back(mix.groups.front());
      mix.workers.push_back({2, 1e-5, 1000.0, "third"});
    }
    mix.rules.growth = BatchGrowth::bounded;
    mix.examples = 400000;
    std::mt19937 engine(seed);
    mix.chance = [&](double seconds) {
      const double wait = std::uniform_real_distribution<double>()(engine) < 0.01 ? 20.0 * seconds : 0.0;
      return wait + seconds * std::lognormal_distribution<double>(0.0, 0.3)(engine);
    };
    std::vector<TimedUpdate> updates;
    const Course course = playCourse(mix, 3, &updates);
    std::int64_t at_start = 0, least = 64, most = 64;
    for (const TimedUpdate& update : updates) {
      if (update.first + update.count == mix.examples) continue; // the rest of an epoch
      least = std::min(least, update.count);
      most = std::max(most, update.count);
      at_start += update.count == 64 ? 1 : 0;
    }
    CHECK(least >= 32);
    CHECK(most <= 128);
    CHECK(static_cast<double>(at_start) > 0.9 * static_cast<double>(updates.size()));
    for (const double share : course.shares)
      CHECK(share == Approx(1.0 / static_cast<double>(course.shares.size())).margin(0.03));
  }
}

TEST_CASE("unequal workers share the updates as the bounds allow, whatever they wait for") {
  for (const bool waits : {false, true}) {
    for (const double ratio : {1.0, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 23.0, 64.0}) {
      CAPTURE(waits, ratio);
      WorkerMix mix = twoReplicas(ratio, WorkerRule::adaptive);
      mix.rules.growth = BatchGrowth::bounded;
      mix.examples = 400000;
      std::mt19937 engine(1);
      if (waits)
        mix.chance = [&](double seconds) {
          return seconds * std::lognormal_distribution<double>(0.0, 0.3)(engine);
        };
      const Course course = playCourse(mix, 4);
      CHECK(course.shares[0] == Approx(slowShare(ratio, 16, 512)).margin(0.03));
    }
  }
}

TEST_CASE("many shared workers and a device share the updates as the bounds allow") {
  for (const double ratio : {1.0, 3.0, 10.0, 30.0}) {
    CAPTURE(ratio);
    WorkerMix mix = processorAndDevice(ratio, WorkerRule::adaptive);
    mix.rules.growth = BatchGrowth::bounded;
    const Course course = playCourse(mix, 20);
    CHECK(course.shares[0] == Approx(adaptiveBalance(mix).shares[0]).margin(0.05));
    CHECK(course.workers.front().batch_last == 64);
    CHECK(course.workers.back().batch_last == 512);
  }
}

TEST_CASE("several groups share the updates as the bounds allow") {
  // Speeds, and the smallest and largest share by the closed forms.
  const std::vector<std::pair<std::vector<double>, std::pair<double, double>>> cases{
      {{1.0, 16.0, 16.0}, {1.0 / 3.0, 1.0 / 3.0}},
      {{1.0, 1.0, 16.0, 16.0}, {0.25, 0.25}},
      {{1.0, 8.0, 32.0}, {1.0 / 3.0, 1.0 / 3.0}},
      {{1.0, 64.0, 64.0}, {0.2, 0.4}}}; // 1/16 to 64/512
  for (const auto& [speeds, shares] : cases) {
    CAPTURE(speeds);
    WorkerMix mix;
    mix.rules = bounded();
    mix.examples = 2000000;
    for (std::size_t i = 0; i < speeds.size(); ++i) {
      mix.groups.push_back(replica(16, 512, 64));
      mix.workers.push_back({i, 1e-5 / speeds[i], 1000.0 * speeds[i], ""});
    }
    const Course course = playCourse(mix, 4);
    CHECK(*std::min_element(course.shares.begin(), course.shares.end()) == Approx(shares.first).margin(0.03));
    CHECK(*std::max_element(course.shares.begin(), course.shares.end()) ==
          Approx(shares.second).margin(0.03));
  }
}

TEST_CASE("a processor and two devices share the updates as the bounds allow") {
  for (const double ratio : {3.0, 10.0}) {
    CAPTURE(ratio);
    WorkerMix mix = processorAndDevice(ratio, WorkerRule::adaptive);
    mix.rules.growth = BatchGrowth::bounded;
    mix.groups.push_back(mix.groups.back());
    mix.workers.push_back({2, mix.workers.back().overhead, mix.workers.back().speed, "second device"});
    const Course course = playCourse(mix, 100);
    CHECK(course.shares[0] == Approx(adaptiveBalance(mix).shares[0]).margin(0.05));
    CHECK(course.workers[0].batch_last == 64);
    CHECK(course.workers[48].batch_last == 512);
    CHECK(course.workers[49].batch_last == 512);
  }
}

TEST_CASE("sizes that an epoch is too short for still change") {
  BatchController controller(bounded(), {replica(16, 512, 64), replica(16, 512, 64)});
  const auto lap = [&](std::size_t ahead) {
    for (int i = 0; i < 8; ++i) {
      const std::int64_t size = controller.size(ahead);
      controller.finished(ahead, {true, std::min<std::int64_t>(size, 236), size, 1.0});
    }
    update(controller, 1 - ahead);
  };
  for (int i = 0; i < 30; ++i) lap(1);
  CHECK(sizesOf(controller) == std::vector<std::int64_t>{16, 512});
  for (int i = 0; i < 100; ++i) lap(0);
  CHECK(sizesOf(controller) == std::vector<std::int64_t>{512, 16});
}

TEST_CASE("a single worker keeps its size under each rule") {
  for (const WorkerRule rule : {WorkerRule::fixed, WorkerRule::adaptive, WorkerRule::proportional}) {
    BatchController controller(rulesOf(rule), {replica(16, 512, 64)});
    for (int i = 0; i < 100; ++i) update(controller, 0);
    CHECK(controller.size(0) == 64);
    CHECK(controller.share(0) == 1.0);
  }
}

TEST_CASE("fixed sizes stay") {
  BatchController controller(rulesOf(WorkerRule::fixed), {replica(1, 99, 7), replica(1, 99, 50)});
  for (int i = 0; i < 20; ++i) update(controller, 0);
  update(controller, 1);
  CHECK(sizesOf(controller) == std::vector<std::int64_t>{7, 50});
  CHECK(controller.share(1) == Approx(1.0 / 21.0));
}

TEST_CASE("shared workers count as one group with beta times their updates") {
  BatchRules rules = rulesOf(WorkerRule::adaptive);
  rules.beta = 0.5;
  BatchController controller(rules, {{WorkerRole::shared, 4, 1, 64, 8}, replica(16, 512, 64)});
  for (int i = 0; i < 3; ++i) update(controller, 0);
  CHECK(controller.size(0) == 8); // the fourth worker still computes
  update(controller, 0);
  CHECK(controller.size(0) == 16);
  CHECK(controller.state()[0].updates == 2.0);
  update(controller, 1); // 1 < 2
  CHECK(controller.size(1) == 32);
}

TEST_CASE("updates that were dropped do not count") {
  BatchController controller(rulesOf(WorkerRule::adaptive), {replica(16, 512, 64), replica(16, 512, 64)});
  update(controller, 1);
  for (int i = 0; i < 2; ++i) controller.finished(0, {false, 64, 64, 1.0});
  CHECK(controller.size(0) == 16);
  CHECK(controller.share(0) == 0.0);
}

TEST_CASE("a restored state has the workers of the run that restores it") {
  const std::vector<WorkerGroup> groups{replica(16, 512, 64), {WorkerRole::shared, 2, 1, 8, 4}};
  BatchController before(rulesOf(WorkerRule::adaptive), groups), after = before;
  update(before, 0);
  before.finished(1, {true, 4, 4, 1.0});
  before.lose(0);
  before.lose(1);
  after.restore(before.state());
  CHECK(after.state()[0].workers == 1);
  CHECK(after.state()[1].workers == 2);
  CHECK(after.size(0) == before.size(0));
  CHECK(after.state()[0].updates == before.state()[0].updates);
}

TEST_CASE("lost workers no longer hold others back") {
  BatchController controller(rulesOf(WorkerRule::adaptive),
                             {replica(16, 512, 64), replica(16, 512, 64), {WorkerRole::shared, 2, 1, 8, 4}});
  controller.lose(0);
  controller.finished(2, {true, 4, 4, 1.0});
  controller.lose(2); // the other one of its two workers starts another batch
  CHECK(controller.state()[2].ended == 0);
  update(controller, 1);
  CHECK(controller.size(1) == 64); // 1 against 1, whatever the lost one has done
  update(controller, 1);
  CHECK(controller.size(1) == 128);
  controller.lose(2);
  update(controller, 1);
  CHECK(controller.size(1) == 128); // alone
}

TEST_CASE("the proportional rule gives larger batches to who made more than its part of the updates") {
  BatchController controller(rulesOf(WorkerRule::proportional),
                             {replica(32, 1024, 64), replica(32, 1024, 64)});
  for (int i = 0; i < 20; ++i) update(controller, 0);
  for (int i = 0; i < 11; ++i) update(controller, 1);
  CHECK(sizesOf(controller) == std::vector<std::int64_t>{64, 64}); // the round of 2048 has not ended
  update(controller, 1);
  CHECK(sizesOf(controller) == std::vector<std::int64_t>{96, 32});
  for (int i = 0; i < 16; ++i) update(controller, 0);
  for (int i = 0; i < 16; ++i) update(controller, 1);
  CHECK(sizesOf(controller) == std::vector<std::int64_t>{96, 32}); // equal parts of the second round
  for (int i = 0; i < 64; ++i) update(controller, 1);
  CHECK(sizesOf(controller) == std::vector<std::int64_t>{64, 64});
}

TEST_CASE("a step in step is divided by speed") {
  BatchRules rules = rulesOf(WorkerRule::synchronous);
  rules.batch = 100;
  BatchController controller(rules, {replica(1, 512, 64), replica(1, 512, 64), replica(1, 512, 64)});
  CHECK(sizesOf(controller) == std::vector<std::int64_t>{34, 33, 33});
  controller.setSpeeds({1.0, 2.0, 6.0});
  CHECK(sizesOf(controller) == std::vector<std::int64_t>{11, 22, 67});
  CHECK(controller.split(10) == std::vector<std::int64_t>{1, 2, 7});
  CHECK(controller.split(1) == std::vector<std::int64_t>{0, 0, 1});

  controller.resplit();
  CHECK(controller.size(0) == 11); // nothing was measured
  controller.finished(0, {true, 11, 11, 1.1});
  controller.finished(1, {true, 22, 22, 1.1});
  controller.finished(2, {true, 67, 67, 3.35});
  CHECK(controller.size(0) == 11); // what is measured changes nothing by itself
  controller.resplit();            // speeds 10, 20, 20
  CHECK(sizesOf(controller) == std::vector<std::int64_t>{20, 40, 40});
  controller.lose(1);
  controller.resplit();
  CHECK(sizesOf(controller) == std::vector<std::int64_t>{33, 0, 67});
}

TEST_CASE("a step is divided as if the job had not been suspended while it was measured") {
  constexpr int steps = 4;
  for (int suspended = 0; suspended < steps; ++suspended) {
    CAPTURE(suspended);
    BatchRules rules = rulesOf(WorkerRule::synchronous);
    rules.batch = 100;
    BatchController controller(rules, {replica(1, 512, 64), replica(1, 512, 64)});
    for (int step = 0; step < steps; ++step) { // the second worker already waits for the end of the step
      controller.finished(0, {true, 50, 50, step == suspended ? 36000.0 : 1.5});
      controller.finished(1, {true, 50, 50, 0.5});
    }
    controller.resplit();
    CHECK(sizesOf(controller) == std::vector<std::int64_t>{25, 75});
  }
}

TEST_CASE("a step is divided by the fastest batch of each worker, whatever its size") {
  BatchRules rules = rulesOf(WorkerRule::synchronous);
  rules.batch = 100;
  BatchController controller(rules, {replica(1, 512, 64), replica(1, 512, 64)});
  controller.finished(0, {true, 50, 50, 0.1}); // faster than anybody after the warm-up
  controller.forgetTimes();
  controller.finished(0, {true, 10, 10, 1.0}); // 10
  controller.finished(0, {true, 60, 60, 2.0}); // 30
  controller.finished(0, {true, 1, 1, 0.5});   // 2
  controller.finished(1, {true, 10, 10, 1.0}); // 10
  controller.resplit();
  CHECK(sizesOf(controller) == std::vector<std::int64_t>{75, 25});
}

TEST_CASE("a split has its total, its bounds and the largest remainders") {
  using Parts = std::vector<std::int64_t>;
  CHECK(proportionalSplit(7, {1, 1, 1}, {0, 0, 0}, {9, 9, 9}) == Parts{3, 2, 2});
  CHECK(proportionalSplit(10, {1, 1, 8}, {2, 1, 0}, {9, 9, 9}) == Parts{2, 1, 7});
  CHECK(proportionalSplit(10, {1, 1, 8}, {0, 0, 0}, {9, 9, 4}) == Parts{3, 3, 4});
  CHECK(proportionalSplit(100, {1, 1}, {1, 1}, {5, 6}) == Parts{5, 6}); // more than they may have
  CHECK(proportionalSplit(3, {1, 1}, {4, 6}, {9, 9}) == Parts{4, 6});   // less than they must have
  CHECK(proportionalSplit(1000000007, {1e-9, 3e-9}, {0, 0}, {1 << 30, 1 << 30}) ==
        Parts{250000002, 750000005});
  Draws draws(3);
  for (int round = 0; round < 500; ++round) {
    const auto count = static_cast<std::size_t>(draws.whole(1, 6));
    std::vector<double> weights;
    Parts lower, upper;
    for (std::size_t i = 0; i < count; ++i) {
      weights.push_back(draws.scaled(1e-3, 1e5));
      lower.push_back(draws.whole(0, 20));
      upper.push_back(lower.back() + draws.whole(0, 200));
    }
    const std::int64_t least = std::accumulate(lower.begin(), lower.end(), std::int64_t{0});
    const std::int64_t most = std::accumulate(upper.begin(), upper.end(), std::int64_t{0});
    const std::int64_t total = draws.whole(least, most);
    const Parts parts = proportionalSplit(total, weights, lower, upper);
    CHECK(std::accumulate(parts.begin(), parts.end(), std::int64_t{0}) == total);
    for (std::size_t i = 0; i < count; ++i) {
      CHECK(parts[i] >= lower[i]);
      CHECK(parts[i] <= upper[i]);
      for (std::size_t j = 0; j < count;
           ++j) { // nobody could give one example to a faster worker with less time
        if (parts[i] == lower[i] || parts[j] == upper[j]) continue;
        CHECK(static_cast<double>(parts[i] - 1) / weights[i] <=
              static_cast<double>(parts[j] + 1) / weights[j] * (1.0 + 1e-9));
      }
    }
  }
}

TEST_CASE("a controller continues from its state") {
  std::vector<BatchRules> all{bounded()};
  for (const WorkerRule rule : {WorkerRule::adaptive, WorkerRule::proportional, WorkerRule::synchronous})
    all.push_back(rulesOf(rule));
  for (const BatchRules& rules : all) {
    const std::vector<WorkerGroup> groups{{WorkerRole::shared, 3, 2, 40, 5}, replica(16, 512, 64)};
    BatchController whole(rules, groups), first(rules, groups);
    Draws draws(4);
    const auto play = [](BatchController& controller, Draws& course) {
      const auto group = static_cast<std::size_t>(course.whole(0, 1));
      controller.finished(group,
                          {true, controller.size(group), controller.size(group), course.scaled(1e-3, 1.0)});
      if (course.whole(0, 9) == 0) controller.resplit();
    };
    Draws other = draws;
    for (int i = 0; i < 100; ++i) play(whole, draws);
    for (int i = 0; i < 60; ++i) play(first, other);
    BatchController second(rules, groups);
    second.restore(first.state());
    for (int i = 0; i < 40; ++i) play(second, other);
    CHECK(sizesOf(second) == sizesOf(whole));
    CHECK(second.share(0) == whole.share(0));
    CHECK_THROWS_AS(second.restore({}), std::logic_error);
  }
}

TEST_CASE("rules and bounds that make no sense are refused") {
  const auto make = [](const BatchRules& rules, const std::vector<WorkerGroup>& groups) {
    return BatchController(rules, groups);
  };
  BatchRules rules;
  CHECK_NOTHROW(make(rules, {replica(1, 1, 1)}));
  CHECK_THROWS_AS(make(rules, {}), std::logic_error);
  CHECK_THROWS_AS(make(rules, {replica(0, 1, 1)}), std::logic_error);
  CHECK_THROWS_AS(make(rules, {replica(4, 8, 3)}), std::logic_error);
  CHECK_THROWS_AS(make(rules, {replica(4, 8, 9)}), std::logic_error);
  CHECK_THROWS_AS(make(rules, {{WorkerRole::shared, 0, 1, 1, 1}}), std::logic_error);
  rules.factor = 1.0;
  CHECK_THROWS_AS(make(rules, {replica(1, 1, 1)}), std::logic_error);
  rules = {};
  rules.beta = 0.0;
  CHECK_THROWS_AS(make(rules, {replica(1, 1, 1)}), std::logic_error);
}

TEST_CASE("sizes of an earlier run become the nearest ones within the present bounds") {
  for (const WorkerRule rule : {WorkerRule::adaptive, WorkerRule::fixed}) {
    BatchController before(rulesOf(rule), {replica(1, 900, 512), replica(1, 900, 3), replica(1, 900, 64)});
    BatchController now(rulesOf(rule), {replica(16, 128, 64), replica(16, 128, 64), replica(16, 128, 20)});
    now.restore(before.state());
    CHECK(sizesOf(now) == std::vector<std::int64_t>{128, 16, 64});
  }
}

TEST_CASE("a run that continues with another rule or other bounds compares its batches anew") {
  const auto groups = [](std::int64_t size) {
    return std::vector<WorkerGroup>(2, replica(16, 8 * size, size));
  };
  const auto equal = [](BatchController controller, int updates) {
    for (int i = 0; i < updates; ++i)
      for (const std::size_t group : {0, 1}) update(controller, group);
    return controller;
  };
  /// Laps until a size changes, if one worker makes eight updates in each.
  const auto laps = [](BatchController controller) {
    const std::vector<std::int64_t> before = sizesOf(controller);
    int count = 0;
    for (; sizesOf(controller) == before && count < 1000; ++count) {
      for (int i = 0; i < 8; ++i) update(controller, 0);
      update(controller, 1);
    }
    return count;
  };
  const auto restored = [&](const BatchController& from, const BatchRules& rules, std::int64_t size) {
    BatchController controller(rules, groups(size));
    controller.restore(from.state());
    return controller;
  };
  const BatchRules in_step = rulesOf(WorkerRule::synchronous);
  const int fresh = laps(BatchController(bounded(), groups(64)));
  CHECK(fresh <= 3);
  const BatchController steps = equal(BatchController(in_step, groups(64)), 20000);
  CHECK(laps(restored(steps, bounded(), 64)) == fresh);
  const BatchController alternated =
      equal(restored(equal(BatchController(bounded(), groups(64)), 10), in_step, 64), 20000);
  CHECK(laps(restored(alternated, bounded(), 64)) == fresh);
  const BatchController larger = equal(BatchController(bounded(), groups(400)), 900);
  CHECK(laps(restored(larger, bounded(), 32)) == fresh);
}

TEST_CASE("a round of the proportional rule has no updates that another rule has counted") {
  const BatchRules proportional = rulesOf(WorkerRule::proportional);
  const std::vector<WorkerGroup> groups(2, replica(16, 512, 64)), same_size(2, replica(64, 64, 64));
  /// Updates of the first worker until a size changes.
  const auto updates = [](BatchController controller) {
    const std::vector<std::int64_t> before = sizesOf(controller);
    int count = 0;
    for (; sizesOf(controller) == before && count < 1000; ++count) update(controller, 0);
    return count;
  };
  const int fresh = updates(BatchController(proportional, groups));
  CHECK(fresh == 32);
  for (const BatchRules& rules : {rulesOf(WorkerRule::fixed), rulesOf(WorkerRule::synchronous),
                                  rulesOf(WorkerRule::adaptive), bounded()}) {
    BatchController before(rules, same_size), now(proportional, groups);
    for (int i = 0; i < 900; ++i) update(before, static_cast<std::size_t>(i % 3 == 0));
    now.restore(before.state());
    CHECK(updates(now) == fresh);
    BatchController between(rules, same_size), again(proportional, groups);
    for (int i = 0; i < 20; ++i) update(now, 0);
    between.restore(now.state());
    again.restore(between.state());
    CHECK(updates(again) == fresh);
  }
}

TEST_CASE("free growth compares all updates of a run, whatever rule counted them") {
  BatchController before(rulesOf(WorkerRule::fixed), {replica(16, 512, 64), replica(16, 512, 64)});
  BatchController now(rulesOf(WorkerRule::adaptive), {replica(16, 512, 64), replica(16, 512, 64)});
  for (int i = 0; i < 20; ++i) update(before, 0);
  now.restore(before.state());
  update(now, 1); // still behind
  CHECK(sizesOf(now) == std::vector<std::int64_t>{64, 32});
}

TEST_CASE("a step of another length is divided as in the earlier run, with an example for each worker") {
  const auto steps = [](std::int64_t batch) {
    BatchRules rules = rulesOf(WorkerRule::synchronous);
    rules.batch = batch;
    return BatchController(rules, std::vector<WorkerGroup>(3, replica(1, batch, batch / 3)));
  };
  BatchController before = steps(579);
  before.setSpeeds({512.0, 3.0, 64.0});
  for (const auto& [batch, sizes] : std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>>{
           {579, {512, 3, 64}}, {1158, {1024, 6, 128}}, {58, {51, 1, 6}}}) {
    BatchController now = steps(batch);
    now.restore(before.state());
    CHECK(sizesOf(now) == sizes);
    CHECK(now.split(batch) == sizes);
  }
}

TEST_CASE("the rate follows the examples behind an update, and staleness") {
  const RateScale rate{64.0, 4.0};
  CHECK(rate.factor(32.0) == 0.5);
  CHECK(rate.factor(64.0) == 1.0);
  CHECK(rate.factor(1000.0) == 4.0);
  CHECK(RateScale{64.0, 0.0}.factor(640.0) == 10.0);
  CHECK(RateScale{}.factor(640.0) == 1.0);

  CHECK(StalenessScale{}.factor(1000) == 1.0);
  const StalenessScale scale{StalenessRule::scale, 0}, ringmaster{StalenessRule::ringmaster, 3};
  CHECK(scale.factor(0) == 1.0);
  CHECK(scale.factor(1) == 1.0);
  CHECK(scale.factor(4) == 0.25);
  CHECK(ringmaster.factor(3) == 1.0);
  CHECK(ringmaster.factor(4) == 0.0);
}

} // namespace partita::test::plan_hogbatch_controller
