#include "partita/plan/hogbatch/deck_mix.hpp"
#include "partita/plan/hogbatch/forecast.hpp"

#include <algorithm>

#include "hogbatch_mixes.hpp"
#include "support/catch.hpp"
#include "support/computing_time.hpp"

namespace partita::test::plan_hogbatch_forecast {

TEST_CASE("a forecast has the shares, the speed and the price of balance of the clock") {
  WorkerMix mix = processorAndDevice(10.0, WorkerRule::adaptive);
  mix.rate = {512.0, 1.0};
  const HogbatchForecast forecast = forecastOf(mix, mix);
  const Balance expected = adaptiveBalance(mix);
  const MeasuredUse use = expectedUse(forecast);
  CHECK(use.shares.back() == Approx(expected.shares.back()).margin(0.02));
  CHECK(sumOf(use.shares) == Approx(1.0));
  CHECK(use.examples_per_second == Approx(expected.examples_per_second).epsilon(0.05));
  CHECK(use.epoch_seconds == Approx(581012 / use.examples_per_second));
  CHECK(use.staleness_mean > 1.0);
  CHECK(forecast.price_of_balance == Approx(priceOfBalance(mix)).margin(0.05));
}

TEST_CASE("an epoch that is too long to play is played in part") {
  WorkerMix mix = processorAndDevice(10.0, WorkerRule::adaptive);
  const double one = forecastOf(mix, mix).epoch_seconds;
  mix.examples *= 1000;
  CHECK(forecastOf(mix, mix).epoch_seconds == Approx(1000.0 * one).epsilon(0.05));
}

TEST_CASE("the worker that is alone has its best batch") {
  WorkerMix mix = processorAndDevice(10.0, WorkerRule::adaptive);
  mix.rate = {1024.0, 1.0}; // larger batches do not learn more from it
  const UseForecast device = forecastAlone(mix, 1), processor = forecastAlone(mix, 0);
  CHECK(device.batches == coresAndDevice(0.0, 1024.0));
  CHECK(device.examples_per_second == Approx(1024.0 / (4e-3 + 1024.0 / 2e5)).epsilon(0.005));
  CHECK(device.progress_per_second == Approx(1.0 / (4e-3 + 1024.0 / 2e5)).epsilon(0.005));
  CHECK(processor.batches == coresAndDevice(64.0, 0.0)); // the upper bound
  CHECK(processor.progress_per_second == Approx(48.0 / 16.0 / (2e-3 + 3072.0 / 2e4)).epsilon(0.005));
  mix.rate.cap = 0.0;
  CHECK(forecastAlone(mix, 1).batches.back() == 8192.0);
  mix.rate.reference = 100.0;
  mix.rate.cap = 1.0;
  CHECK(forecastAlone(mix, 1).batches.back() == 512.0); // the bounds allow no smaller one

  mix.workers.push_back({0, 2e-3, 1000.0, "faster core"}); // of the same group
  mix.rate = {1024.0, 1.0};
  const UseForecast both = forecastAlone(mix, 0);
  CHECK(both.batches.back() == 64.0);
  CHECK(both.examples_per_second ==
        Approx(3072.0 / (2e-3 + 3072.0 / 2e4) + 64.0 / (2e-3 + 64.0 / 1e3)).epsilon(0.01));
}

TEST_CASE("stale updates count less in a group that is alone") {
  WorkerMix mix = processorAndDevice(10.0, WorkerRule::fixed);
  mix.rate = {1024.0, 1.0};
  mix.groups.resize(1);
  mix.workers.pop_back();
  for (int i = 0; i < 16; ++i) mix.workers.push_back({0, 2e-3, 15000.0 / 16.0, "faster core"});
  mix.groups[0].workers = 64;
  const double fresh = forecastAlone(mix, 0).progress_per_second;
  for (const StalenessScale& staleness :
       {StalenessScale{StalenessRule::ringmaster, 40}, StalenessScale{StalenessRule::scale, 0}}) {
    mix.staleness = staleness;
    const UseForecast alone = forecastAlone(mix, 0);
    CHECK(alone.progress_per_second < 0.9 * fresh);
    WorkerMix played = mix;
    WorkerGroup& group = played.groups[0];
    group.lower = group.start = group.upper = static_cast<std::int64_t>(alone.batches[0]);
    const Course course = playCourse(played, 1);
    CHECK(alone.examples_per_second == Approx(course.examplesPerSecond()).epsilon(0.05));
    CHECK(alone.progress_per_second == Approx(course.progressPerSecond()).epsilon(0.1));
  }
}

TEST_CASE("steps are divided by the speeds of the deck") {
  RunConfig config = workersDeck(WorkerRule::synchronous, 0);
  config.strategy.hogbatch.speeds = {3};
  WorkerMix mix = workerMix(config, 3, {"", 1000, 6400, 1e-3}, Cluster());
  const Course course = playCourse(mix, 1);
  CHECK(course.workers[0].batch_first == 48); // though both workers are equally fast
  CHECK(course.workers[1].batch_first == 16);
  mix.speeds.clear();
  CHECK(playCourse(mix, 1).workers[0].batch_first == 32);
}

TEST_CASE("thousands of workers take seconds", "[speed]") {
  constexpr std::size_t workers = 4000;
  WorkerMix mix;
  mix.examples = 300000;
  mix.rules.batch = 64;
  mix.rate = {64.0, 1.0};
  mix.groups.assign(workers, {WorkerRole::replica, 1, 16, 1024, 64});
  for (std::size_t i = 0; i < workers; ++i)
    mix.workers.push_back({i, 1e-5, 1000.0 * static_cast<double>(1 + i % 7), ""});
  mix.rules.rule = WorkerRule::adaptive;
  mix.rules.growth = BatchGrowth::bounded;
  WorkerMix in_step = mix;
  in_step.rules.rule = WorkerRule::synchronous;
  constexpr double limit = 20.0; // s; the machine may be busy
  CHECK(computingTime(limit, [&] {
          for (const WorkerMix& each : {mix, in_step})
            CHECK(sumOf(forecastOf(each, mix).alone.batches) > 0.0);
        }) < limit);
}

TEST_CASE("a step takes all workers equally long, as far as they can help") {
  WorkerMix mix = twoReplicas(7.0, WorkerRule::adaptive);
  mix.rate = {256.0, 1.0};
  for (WorkerSpeed& worker : mix.workers) worker.overhead = 0.01; // small steps do not pay
  const UseForecast step = forecastInStep(mix);
  CHECK(sumOf(step.batches) == Approx(256.0).epsilon(0.06));
  CHECK(step.batches[1] / step.batches[0] == Approx(7.0).epsilon(0.1));
  CHECK(step.examples_per_second == Approx(256.0 / (256.0 / 8000.0 + 0.01)).epsilon(0.05));
  mix.workers[0].overhead = 1.0;
  CHECK(forecastInStep(mix).batches[0] == 0.0);
  mix.rate.cap = 0.0;
  mix.groups[1].upper = 50;
  mix.workers[0].overhead = 0.0;
  CHECK(forecastInStep(mix).batches[1] <= 50.0);
}

TEST_CASE("the best step counts the turns of its workers, not of others") {
  WorkerMix mix = twoReplicas(1.0, WorkerRule::adaptive);
  mix.rate = {64.0, 1.0};
  for (WorkerSpeed& worker : mix.workers) {
    worker.merge = worker.order = 0.01;
    worker.overhead = 0.01 + 1e-5;
  }
  CHECK(forecastInStep(mix).examples_per_second == Approx(64.0 / (1e-5 + 0.032 + 0.04)).epsilon(0.03));
  mix.workers[0].overhead = 10.0;
  CHECK(forecastInStep(mix).batches[0] == 0.0);
  CHECK(forecastInStep(mix).examples_per_second == Approx(64.0 / (1e-5 + 0.064 + 0.02)).epsilon(0.03));
}

TEST_CASE("a forecast says which way is better") {
  WorkerMix mix = processorAndDevice(3.0, WorkerRule::fixed);
  mix.rate = {512.0, 1.0};
  mix.groups[0].start = 64;
  mix.groups[1].start = 512;
  const HogbatchForecast best = forecastOf(mix, mix);
  CHECK(best.best == WorkerUse::asynchronous);
  CHECK(best.gain == 1.0);
  CHECK(best.asynchronous.own);
  CHECK_THAT(forecastText(mix), Catch::Matchers::ContainsSubstring("no other way is better"));
  CHECK_THAT(forecastText(mix), Catch::Matchers::ContainsSubstring("    as in this run"));

  mix.rate = {64.0, 0.0}; // large batches are as good as small ones, and faster
  mix.staleness = {StalenessRule::scale, 0};
  mix.workers.back().speed = 20000.0;
  mix.groups[1].lower = 1;
  const HogbatchForecast stale = forecastOf(mix, mix); // an update counts 1/48
  CHECK(stale.best == WorkerUse::synchronous);
  CHECK(stale.gain > 1.5);
  CHECK_THAT(forecastText(mix), Catch::Matchers::ContainsSubstring("all in step"));
  CHECK_THAT(forecastText(mix), Catch::Matchers::ContainsSubstring("strategy/staleness=none"));

  WorkerMix slow = twoReplicas(100.0, WorkerRule::fixed); // the slow one is no help, and its updates are old
  slow.rate = {64.0, 1.0};
  slow.workers[0].overhead = 1.0;
  slow.workers[1].overhead = 0.0;
  slow.groups[1].start = 16;
  const HogbatchForecast forecast = forecastOf(slow, slow);
  CHECK(forecast.alone.batches[0] == 0.0);
  CHECK(forecast.of(WorkerUse::alone).progress_per_second > 0.9 * forecast.course.progressPerSecond());
}

TEST_CASE("a forecast has a line for each worker, and one that compares") {
  const WorkerMix mix = twoReplicas(4.0, WorkerRule::adaptive);
  const std::string text = forecastText(mix);
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("\n  slow "));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("\n  fast "));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("s per epoch"));
  MeasuredUse predicted, measured;
  predicted.shares = {0.25, 0.75};
  predicted.examples_per_second = 2000.0;
  predicted.staleness_mean = 1.0;
  measured = predicted;
  measured.examples_per_second = 1600.0;
  CHECK(
      comparisonLine(predicted, measured) ==
      "predicted 2000 examples/s, measured 1600 (+25.0 %): shares of updates 0.250, 0.750 and 0.250, 0.750, "
      "staleness 1.0 and 1.0");
}

TEST_CASE("the times of two batches tell overhead and speed") {
  const WorkerTiming timing = workerTiming(16, 2e-3 + 16 / 5e4, 512, 2e-3 + 512 / 5e4);
  CHECK(timing.overhead == Approx(2e-3));
  CHECK(timing.samples_per_second == Approx(5e4));
  const WorkerTiming noisy = workerTiming(16, 1e-3, 512, 0.9e-3); // as long: all of it is per sample
  CHECK(noisy.overhead == 0.0);
  CHECK(noisy.samples_per_second == Approx(512 / 0.9e-3));
  const WorkerTiming cache = workerTiming(16, 1e-5, 512, 1e-2); // less than in proportion
  CHECK(cache.overhead == 0.0);
  CHECK(cache.samples_per_second == Approx(512 / 1e-2));

  CHECK(timedBatches(workersDeck(WorkerRule::adaptive, 1)) ==
        std::make_pair(std::int64_t{16}, std::int64_t{512}));
  CHECK(timedBatches(workersDeck(WorkerRule::fixed, 1)) ==
        std::make_pair(std::int64_t{64}, std::int64_t{256}));
}

TEST_CASE("a deck and a cluster make workers") {
  RunConfig config = workersDeck(WorkerRule::adaptive, 2);
  HogbatchSection& section = config.strategy.hogbatch;
  section.upper_shared = 128;
  section.batch_shared = 32;
  section.slowdown = {4};
  section.rate_cap = 3.0;
  section.staleness = StalenessRule::ringmaster;
  section.staleness_bound = 7;
  Cluster cluster;
  cluster.links.rows = {{0, {1e-6, 0.0, {}}}};
  cluster.workers = {{"deck", 1, 1e-3, 1000.0}, {"deck", 3, 0.0, 8000.0}};
  const MixTask task{"deck", 0, 5000, 1e-4};
  const WorkerMix mix = workerMix(config, 4, task, cluster);
  REQUIRE(mix.groups.size() == 2);
  CHECK(mix.groups[0].workers == 2);
  CHECK(mix.groups[0].role == WorkerRole::shared);
  CHECK(mix.groups[0].upper == 128);
  CHECK(mix.groups[0].start == 32);
  CHECK(mix.groups[1].upper == 512);
  REQUIRE(mix.workers.size() == 3);
  CHECK(mix.workers[0].overhead == Approx(4e-3 + 2e-6));
  CHECK(mix.workers[0].speed == Approx(250.0));
  CHECK(mix.workers[1].group == 0);
  CHECK(mix.workers[1].speed == Approx(10000.0)); // not in the cluster
  CHECK(mix.workers[2].group == 1);
  CHECK(mix.workers[2].speed == Approx(8000.0));
  CHECK(mix.workers[2].name == "rank 3, replica");
  CHECK(mix.rate.reference == 64.0);
  CHECK(mix.rate.cap == 3.0);
  CHECK(mix.staleness.bound == 7);
  CHECK(mix.examples == 5000);
  CHECK_FALSE(knowsWorkers(4, task, cluster));
  cluster.workers.push_back({"deck", 2, 0.0, 1.0});
  CHECK(knowsWorkers(4, task, cluster));
  CHECK(forecastOf(mix, mix).course.workers.size() == 3);

  section.rule = WorkerRule::fixed; // uses no bounds
  CHECK(workerMix(config, 4, task, cluster).groups[1].upper == 64);
  CHECK(mixWithinBounds(config, 4, task, cluster).groups[0].upper == 128);
  CHECK(mixWithinBounds(config, 4, task, cluster).groups[1].upper == 512);
  section.upper = 48; // below the batch of the deck
  CHECK(mixWithinBounds(config, 4, task, cluster).groups[1].upper == 64);

  section.rule = WorkerRule::synchronous;
  CHECK(mixWithinBounds(config, 4, task, cluster).rules.rule == WorkerRule::fixed);
  const WorkerMix in_step = workerMix(config, 4, task, cluster);
  CHECK(in_step.groups.size() == 3);
  CHECK(in_step.rules.batch == 64);
  CHECK(in_step.workers[2].group == 2);
  CHECK(forecastOf(in_step, mix).course.stalenessMax() == 0);
}

TEST_CASE("a worker on another node gets the model and sends two vectors for each batch") {
  RunConfig config = workersDeck(WorkerRule::adaptive, 1);
  config.strategy.hogbatch.slowdown = {1, 1, 2};
  Cluster cluster;
  cluster.node_ranks = 2;
  cluster.links.rows = {{2, {1e-6, 0.0, {}}}, {8, {1e-5, 1e-9, {}}}};
  cluster.workers = {{"deck", 2, 1e-3, 1000.0}, {"deck", 3, 1e-3, 1000.0}};
  const MixTask task{"deck", 0, 5000, 1e-4, 1e6, 2e-4};
  const std::vector<WorkerSpeed> workers = workerMix(config, 4, task, cluster).workers;
  CHECK(workers[0].overhead == Approx(2e-4 + 2e-6)); // not in the cluster: the update of the model
  CHECK(workers[0].merge == 2e-4);
  // an order and its result, two requests and their answers, and three vectors
  const double messages = 6 * (1e-5 + 256e-9) + 3 * (1e-5 + 1e-3);
  CHECK(workers[1].overhead == Approx(1e-3 + messages));
  CHECK(workers[1].merge == Approx(2e-4 + 2 * (1e-5 + 256e-9) + 2 * (1e-5 + 1e-3)));
  CHECK(workers[1].order == Approx(2 * (1e-5 + 256e-9)));
  CHECK(workers[2].overhead == Approx(1.8e-3 + messages)); // repeats its work, not the update and messages
  cluster.node_ranks = 4;
  CHECK(workerMix(config, 4, task, cluster).workers[1].overhead == Approx(1e-3 + 2e-6));
  cluster.workers[0].overhead = 1e-4; // less than an update is expected to take
  CHECK(workerMix(config, 4, task, cluster).workers[1].overhead == Approx(1e-4 + 2e-6));
}

} // namespace partita::test::plan_hogbatch_forecast
