#include "partita/config/deck.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/hogbatch/deck_mix.hpp"
#include "partita/plan/hogbatch/forecast.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "hogbatch_mixes.hpp"
#include "support/catch.hpp"

namespace partita::test::plan_hogbatch_advice {

namespace {

/// Two equal workers with an overhead that batches of 64 do not make up for, though the bounds allow 512.
RunConfig slowStart(WorkerRule rule) {
  RunConfig config = workersDeck(rule, 0);
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
  device.batches = coresAndDevice(0.0, 512.0);
  device.batch = 512;
  CHECK(deckChangesFor(mix, device) ==
        std::vector<std::string>{"strategy/rule=fixed", "strategy/speeds=[]", "strategy/shared_workers=0"});
  UseForecast all;
  all.batches = coresAndDevice(64.0, 1024.0);
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

TEST_CASE("a deck with the changes of a way is accepted", "[sweep]") {
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
  RunConfig config = workersDeck(WorkerRule::adaptive, 2);
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

TEST_CASE("no other choice within the bounds is better than the advice", "[sweep]") {
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

} // namespace partita::test::plan_hogbatch_advice
