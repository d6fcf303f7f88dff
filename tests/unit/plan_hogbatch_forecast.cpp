#include "partita/config/deck.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/hogbatch/deck_mix.hpp"
#include "partita/plan/hogbatch/forecast.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "hogbatch_mixes.hpp"
#include "support/catch.hpp"
#include "support/computing_time.hpp"

namespace partita::test::plan_hogbatch_forecast {

namespace {

double sumOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

std::string textOf(const WorkerMix& mix) {
  std::string text;
  for (const std::string& line : forecastLines(mix, forecastOf(mix, mix))) text += line + "\n";
  return text;
}

/// Of the workers of `processorAndDevice`.
std::vector<double> batchesOf(double core, double device) {
  std::vector<double> batches(48, core);
  batches.push_back(device);
  return batches;
}

RunConfig deckOf(WorkerRule rule, std::int64_t shared) {
  RunConfig config;
  config.strategy.kind = StrategyKind::hogbatch;
  config.strategy.hogbatch.rule = rule;
  config.strategy.hogbatch.shared_workers = shared;
  config.training.batch = 64;
  return config;
}

/// Two equal workers with an overhead that batches of 64 do not make up for, though the bounds allow 512.
RunConfig slowStart(WorkerRule rule) {
  RunConfig config = deckOf(rule, 0);
  config.strategy.hogbatch.rate_cap = 8.0;
  return config;
}

WorkerMix slowStartMix(const RunConfig& config, bool within_bounds = false) {
  Cluster cluster;
  cluster.links.rows = {{0, {1e-9, 0.0, {}}}};
  cluster.workers = {{"deck", 1, 1e-2, 1e4}, {"deck", 2, 1e-2, 1e4}};
  const MixTask task{"deck", 0, 20000, 1e-4};
  return within_bounds ? mixWithinBounds(config, 3, task, cluster) : workerMix(config, 3, task, cluster);
}

/// Up to five workers of any speed, in groups for an asynchronous rule.
WorkerMix drawnMix(Draws& draws) {
  const std::array<WorkerRule, 2> rules{WorkerRule::fixed, WorkerRule::adaptive};
  WorkerMix mix;
  mix.rules.rule = rules[static_cast<std::size_t>(draws.whole(0, 1))];
  mix.rules.growth = BatchGrowth::bounded;
  mix.examples = static_cast<std::int64_t>(draws.scaled(3e3, 3e5));
  mix.rate = {64.0, draws.scaled(1.0, 10.0)};
  if (draws.whole(0, 2) == 0) mix.staleness = {StalenessRule::scale, 0};
  if (const std::int64_t shared = draws.whole(0, 3); shared > 0)
    mix.groups.push_back({WorkerRole::shared, shared, 4, 128, 64});
  for (std::int64_t replica = mix.groups.empty() ? 0 : 1; replica < 3; ++replica)
    mix.groups.push_back({WorkerRole::replica, 1, 16, 512, 64});
  for (std::size_t group = 0; group < mix.groups.size(); ++group)
    for (std::int64_t worker = 0; worker < mix.groups[group].workers; ++worker)
      mix.workers.push_back({group, draws.scaled(1e-5, 1e-2), draws.scaled(1e3, 1e5), "worker"});
  return mix;
}

/// What choices of a user achieve on the clock, in progress per second.
std::vector<std::pair<std::string, double>> choicesWithin(const WorkerMix& bounded, Draws& draws) {
  std::vector<std::pair<std::string, double>> choices;
  const auto play = [&](const std::string& what, const WorkerMix& mix) {
    choices.emplace_back(what, playCourse(mix, 3).progressPerSecond());
  };
  for (int i = 0; i < 12; ++i) {
    const auto replicas = static_cast<std::int64_t>(draws.scaled(16, 512)),
               shared = static_cast<std::int64_t>(draws.scaled(4, 128));
    const std::string sizes = std::to_string(replicas) + ", " + std::to_string(shared);
    WorkerMix fixed = bounded, moved = bounded, in_step = bounded;
    for (std::size_t group = 0; group < bounded.groups.size(); ++group) {
      WorkerGroup& own = fixed.groups[group];
      own.start = own.role == WorkerRole::shared ? shared : replicas;
      moved.groups[group].start = own.start;
      own.lower = own.upper = own.start;
      WorkerMix alone = fixed;
      alone.rules.rule = WorkerRule::fixed;
      alone.groups = {own};
      alone.workers.clear();
      for (WorkerSpeed worker : bounded.workers)
        if (std::exchange(worker.group, 0) == group) alone.workers.push_back(worker);
      play("group " + std::to_string(group) + " alone with " + sizes, alone);
    }
    fixed.rules.rule = WorkerRule::fixed;
    play("fixed " + sizes, fixed);
    if (bounded.rules.rule == WorkerRule::adaptive) play("adaptive from " + sizes, moved);
    in_step.rules.rule = WorkerRule::synchronous;
    in_step.groups.clear();
    for (std::size_t worker = 0; worker < bounded.workers.size(); ++worker) {
      in_step.groups.push_back(
          {WorkerRole::replica, 1, 1, bounded.groups[bounded.workers[worker].group].upper, 1});
      in_step.workers[worker].group = worker;
      in_step.rules.batch += in_step.groups.back().upper;
    }
    in_step.rules.batch =
        std::min(in_step.rules.batch, static_cast<std::int64_t>(in_step.workers.size()) * replicas);
    play("steps of " + std::to_string(in_step.rules.batch), in_step);
  }
  return choices;
}

/// A deck, and the workers of a run with it.
struct DrawnRun {
  std::vector<std::string> keys;
  std::int64_t ranks = 2, examples = 1;
  Cluster cluster;

  RunConfig deck(const std::vector<std::string>& changes = {}) const {
    const std::string text = "[optimiser]\nkind = \"sgd\"\nmomentum = 0\n[strategy]\nkind = \"hogbatch\"\n"
                             "[network]\nlayers = [{type = \"dense\"}]\n";
    std::vector<std::string> all = keys;
    all.insert(all.end(), changes.begin(), changes.end());
    return parseDeck(text, "deck.toml", all);
  }
  void requireAccepted(const RunConfig& config, std::int64_t workers) const {
    planOf(config.strategy).checkRanks(config.strategy, static_cast<int>(workers) + 1);
    requireWorkForAll(config, workers);
    planRunLength(config, examples);
  }
};

std::string drawnList(Draws& draws, std::int64_t most, std::int64_t largest) {
  std::vector<std::int64_t> list(static_cast<std::size_t>(draws.whole(0, most)));
  for (std::int64_t& value : list) value = draws.whole(1, largest);
  return "[" + joined(list, ",") + "]";
}

DrawnRun drawnRun(Draws& draws) {
  const std::array<std::string, 4> rules{"fixed", "adaptive", "proportional", "synchronous"};
  const auto number = [&](double most) {
    return std::to_string(static_cast<std::int64_t>(draws.scaled(1, most)));
  };
  const std::string rule = rules[static_cast<std::size_t>(draws.whole(0, 3))];
  const bool in_step = rule == "synchronous";
  const std::int64_t workers = draws.whole(1, 5);
  DrawnRun run;
  run.ranks = workers + 1;
  run.examples = static_cast<std::int64_t>(draws.scaled(5, 1e5));
  run.keys = {"strategy/rule=" + rule,
              "training/batch=" + number(1000),
              "strategy/lower=" + number(100),
              "strategy/upper=" + number(5000),
              "strategy/rate_cap=" + number(20),
              "strategy/shared_workers=" + std::to_string(draws.whole(0, workers)),
              "strategy/slowdown=" + drawnList(draws, workers, 5)};
  for (const std::string key : {"lower_shared", "upper_shared", "batch_shared"})
    if (draws.whole(0, 1) == 0) run.keys.push_back("strategy/" + key + "=" + number(1000));
  if (in_step) run.keys.push_back("strategy/speeds=" + drawnList(draws, workers, 9));
  if (!in_step && draws.whole(0, 1) == 0) run.keys.emplace_back("strategy/tolerate=true");
  if (!in_step && draws.whole(0, 1) == 0) run.keys.emplace_back("strategy/merge=average");
  if (!in_step && draws.whole(0, 1) == 0) run.keys.emplace_back("strategy/staleness=scale");
  run.cluster.links.rows = {{0, {1e-9, 0.0, {}}}};
  for (std::int64_t rank = 1; rank <= workers; ++rank)
    run.cluster.workers.push_back({"deck", rank, draws.scaled(1e-5, 1.0), draws.scaled(1e2, 1e5)});
  return run;
}

/// Returns whether the deck itself is accepted; if so, it must be with the changes of each way.
bool checkAdvice(const DrawnRun& run) {
  RunConfig config;
  try {
    config = run.deck();
    run.requireAccepted(config, run.ranks - 1);
  } catch (const UserError&) {
    return false;
  }
  const MixTask task{"deck", 0, run.examples, 1e-3};
  const WorkerMix mix = workerMix(config, run.ranks, task, run.cluster);
  const HogbatchForecast forecast = forecastOf(mix, mixWithinBounds(config, run.ranks, task, run.cluster));
  for (const UseForecast& way : {forecast.asynchronous, forecast.synchronous, forecast.alone}) {
    if (way.own) continue;
    const std::vector<std::string> changes = deckChangesFor(mix, way);
    INFO(joined(run.keys, " ") << ", with " << joined(changes, " "));
    const auto idle = std::count(way.batches.begin(), way.batches.end(), 0.0);
    REQUIRE(idle < run.ranks - 1);
    CHECK_NOTHROW(run.requireAccepted(run.deck(changes), run.ranks - 1 - idle));
  }
  return true;
}

} // namespace

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
  CHECK(device.batches == batchesOf(0.0, 1024.0));
  CHECK(device.examples_per_second == Approx(1024.0 / (4e-3 + 1024.0 / 2e5)).epsilon(0.005));
  CHECK(device.progress_per_second == Approx(1.0 / (4e-3 + 1024.0 / 2e5)).epsilon(0.005));
  CHECK(processor.batches == batchesOf(64.0, 0.0)); // the upper bound
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
  RunConfig config = deckOf(WorkerRule::synchronous, 0);
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
  CHECK_THAT(textOf(mix), Catch::Matchers::ContainsSubstring("no other way is better"));
  CHECK_THAT(textOf(mix), Catch::Matchers::ContainsSubstring("    as in this run"));

  mix.rate = {64.0, 0.0}; // large batches are as good as small ones, and faster
  mix.staleness = {StalenessRule::scale, 0};
  mix.workers.back().speed = 20000.0;
  mix.groups[1].lower = 1;
  const HogbatchForecast stale = forecastOf(mix, mix); // an update counts 1/48
  CHECK(stale.best == WorkerUse::synchronous);
  CHECK(stale.gain > 1.5);
  CHECK_THAT(textOf(mix), Catch::Matchers::ContainsSubstring("all in step"));
  CHECK_THAT(textOf(mix), Catch::Matchers::ContainsSubstring("strategy/staleness=none"));

  WorkerMix slow = twoReplicas(100.0, WorkerRule::fixed); // the slow one is no help, and its updates are old
  slow.rate = {64.0, 1.0};
  slow.workers[0].overhead = 1.0;
  slow.workers[1].overhead = 0.0;
  slow.groups[1].start = 16;
  const HogbatchForecast forecast = forecastOf(slow, slow);
  CHECK(forecast.alone.batches[0] == 0.0);
  CHECK(forecast.of(WorkerUse::alone).progress_per_second > 0.9 * forecast.course.progressPerSecond());
}

TEST_CASE("asynchronous workers get their best batches, as other ways do") {
  for (const WorkerRule rule : {WorkerRule::adaptive, WorkerRule::fixed, WorkerRule::synchronous}) {
    const RunConfig config = slowStart(rule);
    const WorkerMix mix = slowStartMix(config), within_bounds = slowStartMix(config, true);
    const HogbatchForecast forecast = forecastOf(mix, within_bounds);
    CHECK(forecast.best == WorkerUse::asynchronous);
    CHECK(forecast.asynchronous.batches == std::vector<double>{512.0, 512.0});
    CHECK(forecast.asynchronous.progress_per_second == Approx(259.6).epsilon(0.03));
    CHECK(forecast.synchronous.progress_per_second == Approx(223.0).epsilon(0.03));
    CHECK(forecast.alone.batches == std::vector<double>{512.0, 0.0});
    CHECK(forecast.alone.progress_per_second == Approx(8.0 / (0.01 + 512e-4)).epsilon(0.03));
  }
}

TEST_CASE("the keys of a way give what the forecast says of it") {
  for (const WorkerRule rule : {WorkerRule::adaptive, WorkerRule::fixed, WorkerRule::synchronous}) {
    RunConfig config = slowStart(rule);
    const WorkerMix mix = slowStartMix(config);
    const HogbatchForecast forecast = forecastOf(mix, slowStartMix(config, true));
    std::vector<std::string> changes{"training/batch=512", "strategy/rate_cap=1"};
    if (rule != WorkerRule::fixed) changes.insert(changes.begin(), "strategy/rule=fixed");
    CHECK(deckChangesFor(mix, forecast.asynchronous) == changes);
    for (const UseForecast& way : {forecast.asynchronous, forecast.synchronous}) {
      config.strategy.hogbatch.rule = way.rule;
      config.training.batch = way.batch;
      const double rate = rateChangeFor(mix, way);
      config.strategy.hogbatch.rate_cap = mix.rate.cap / rate;
      const Course course = playCourse(slowStartMix(config), 10);
      CHECK(rate * course.progressPerSecond() == Approx(way.progress_per_second).epsilon(0.01));
      CHECK(course.examplesPerSecond() == Approx(way.examples_per_second).epsilon(0.01));
    }
  }
}

TEST_CASE("changes of a deck also name workers and rules that do not fit") {
  WorkerMix mix = processorAndDevice(3.0, WorkerRule::synchronous);
  mix.speeds.assign(49, 1.0);
  mix.rate = {512.0, 1.0};
  UseForecast device;
  device.batches = batchesOf(0.0, 512.0);
  device.batch = 512;
  CHECK(deckChangesFor(mix, device) ==
        std::vector<std::string>{"strategy/rule=fixed", "strategy/speeds=[]", "strategy/shared_workers=0"});
  UseForecast all;
  all.batches = batchesOf(64.0, 1024.0);
  all.batch = 1024;
  all.batch_shared = 64;
  CHECK(deckChangesFor(mix, all) == std::vector<std::string>{"strategy/rule=fixed", "strategy/speeds=[]",
                                                             "training/batch=1024", "strategy/rate_cap=0.5",
                                                             "strategy/batch_shared=64"});
  CHECK(rateChangeFor(mix, all) == 2.0);
  all.own = true;
  CHECK(deckChangesFor(mix, all).empty());
  CHECK(rateChangeFor(mix, all) == 1.0);
}

TEST_CASE("a deck with the changes of a way is accepted") {
  constexpr unsigned decks = 400;
  int accepted = 0;
  for (unsigned seed = 0; seed < decks; ++seed) {
    Draws draws(seed);
    accepted += checkAdvice(drawnRun(draws)) ? 1 : 0;
  }
  CHECK(accepted > 80);
}

TEST_CASE("changes to rule synchronous also change the keys that it refuses") {
  WorkerMix mix = twoReplicas(1.0, WorkerRule::fixed);
  mix.rate = {64.0, 1.0};
  mix.staleness.rule = StalenessRule::scale;
  mix.keys.tolerate = true;
  mix.keys.merge = ReplicaMerge::overwrite;
  UseForecast way;
  way.rule = WorkerRule::synchronous;
  way.batch = 64;
  way.batches = {32.0, 32.0};
  CHECK(deckChangesFor(mix, way) ==
        std::vector<std::string>{"strategy/rule=synchronous", "strategy/staleness=none",
                                 "strategy/tolerate=false", "strategy/merge=delta"});
  way.rule = WorkerRule::fixed;
  CHECK(deckChangesFor(mix, way).empty());
}

TEST_CASE("workers that are left keep their slowdown") {
  WorkerMix mix = twoReplicas(1.0, WorkerRule::fixed);
  mix.rate = {64.0, 1.0};
  UseForecast second;
  second.batch = 64;
  second.batches = {0.0, 64.0};
  CHECK(deckChangesFor(mix, second).empty());
  mix.keys.slowdown = {4, 1};
  CHECK(deckChangesFor(mix, second) == std::vector<std::string>{"strategy/slowdown=[1]"});
  mix.keys.slowdown = {4};
  CHECK(deckChangesFor(mix, second) == std::vector<std::string>{"strategy/slowdown=[]"});
  second.batches = {64.0, 0.0};
  CHECK(deckChangesFor(mix, second).empty());
}

TEST_CASE("the best batches of shared workers leave the batch of the learning rate") {
  RunConfig config = deckOf(WorkerRule::adaptive, 2);
  config.strategy.hogbatch.upper_shared = 2048;
  config.strategy.hogbatch.rate_cap = 32.0;
  Cluster cluster;
  cluster.links.rows = {{0, {1e-9, 0.0, {}}}};
  cluster.workers = {{"deck", 1, 1e-2, 1e4}, {"deck", 2, 1e-2, 1e4}};
  const MixTask task{"deck", 0, 200000, 1e-4};
  const WorkerMix mix = workerMix(config, 3, task, cluster);
  const HogbatchForecast forecast = forecastOf(mix, mixWithinBounds(config, 3, task, cluster));
  const UseForecast& way = forecast.asynchronous;
  REQUIRE(way.batch_shared > 512);
  CHECK(rateChangeFor(mix, way) == 1.0);
  const std::string key = "strategy/batch_shared=" + std::to_string(way.batch_shared);
  CHECK(deckChangesFor(mix, way) == std::vector<std::string>{"strategy/rule=fixed", key});
  config.strategy.hogbatch.batch_shared = way.batch_shared; // already in the deck
  CHECK(deckChangesFor(workerMix(config, 3, task, cluster), way) ==
        std::vector<std::string>{"strategy/rule=fixed"});
}

TEST_CASE("steps may be longer than the part of an epoch that is played") {
  WorkerMix mix = twoReplicas(1.0, WorkerRule::fixed);
  mix.examples = 12000000;
  mix.rate = {64.0, 0.0};
  for (WorkerGroup& group : mix.groups) group.upper = 1500000;
  for (WorkerSpeed& worker : mix.workers) worker.overhead = 1e4; // s
  const UseForecast step = forecastInStep(mix);
  CHECK(static_cast<double>(step.batch) == Approx(3e6).epsilon(0.02));
  CHECK(sumOf(step.batches) == static_cast<double>(step.batch));
  CHECK(step.examples_per_second == Approx(3e6 / (1e4 + 1500.0)).epsilon(0.02));
}

TEST_CASE("no batch of the advice is larger than the epoch") {
  RunConfig config = slowStart(WorkerRule::fixed);
  Cluster cluster;
  cluster.workers = {{"deck", 1, 1e-2, 1e4}, {"deck", 2, 1e-2, 1e4}};
  const MixTask task{"deck", 0, 300, 1e-4};
  CHECK(mixWithinBounds(config, 3, task, cluster).groups[1].upper == 300);
  config.training.batch = 400; // which a run refuses
  CHECK(mixWithinBounds(config, 3, task, cluster).groups[1].upper == 400);
  WorkerMix few = twoReplicas(1.0, WorkerRule::fixed); // fewer examples than workers
  few.examples = 1;
  const UseForecast step = forecastInStep(few);
  CHECK(step.batch == 1);
  CHECK(step.batches == std::vector<double>{1.0, 0.0});
}

TEST_CASE("no other choice within the bounds is better than the advice") {
  constexpr unsigned mixes = 40;
  for (unsigned seed = 0; seed < mixes; ++seed) {
    Draws draws(seed);
    const WorkerMix bounded = drawnMix(draws);
    WorkerMix mix = bounded;
    if (mix.rules.rule == WorkerRule::fixed) // as the groups of a deck
      for (WorkerGroup& group : mix.groups) group.lower = group.upper = group.start;
    const HogbatchForecast forecast = forecastOf(mix, bounded);
    double advised = forecast.of(forecast.best).progress_per_second;
    for (const auto& [what, progress] : choicesWithin(bounded, draws)) {
      INFO("mix " << seed << ": " << what);
      CHECK(progress < 1.06 * advised); // 5 % are not worth a change
    }
  }
}

TEST_CASE("a forecast has a line for each worker, and one that compares") {
  const WorkerMix mix = twoReplicas(4.0, WorkerRule::adaptive);
  const std::string text = textOf(mix);
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

  CHECK(timedBatches(deckOf(WorkerRule::adaptive, 1)) == std::make_pair(std::int64_t{16}, std::int64_t{512}));
  CHECK(timedBatches(deckOf(WorkerRule::fixed, 1)) == std::make_pair(std::int64_t{64}, std::int64_t{256}));
}

TEST_CASE("a deck and a cluster make workers") {
  RunConfig config = deckOf(WorkerRule::adaptive, 2);
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
  RunConfig config = deckOf(WorkerRule::adaptive, 1);
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
