#include "partita/config/deck.hpp"
#include "partita/config/names.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/strategies/sil.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <set>
#include <stdexcept>
#include <tuple>

#include "support/catch.hpp"
#include "support/source_directory.hpp"

namespace partita::test::plan_strategies {

namespace {

RunConfig deckWith(const std::vector<std::string>& overrides) {
  return parseDeck(R"(
[network]
layers = [{ type = "dense", units = 64, repeat = 4 }, { type = "dense" }]
[strategy]
kind = "joint"
stages = 3
)",
                   "deck", overrides);
}

} // namespace

TEST_CASE("Every kind of strategy has a plan of its own", "[plan]") {
  std::set<const StrategyPlan*> plans;
  for (std::size_t kind = 0; kind < namesOf<StrategyKind>().size(); ++kind)
    plans.insert(&planOf(static_cast<StrategyKind>(kind)));
  CHECK(plans.size() == namesOf<StrategyKind>().size());
  CHECK_THROWS(planOf(static_cast<StrategyKind>(namesOf<StrategyKind>().size())));
}

TEST_CASE("Only stages with a loss of their own have labels", "[plan]") {
  for (const std::string& kind : namesOf<StrategyKind>()) {
    INFO(kind);
    const StrategySection strategy =
        deckWith({"strategy/kind=" + kind, "optimiser/kind=sgd", "optimiser/momentum=0"}).strategy;
    if (planOf(strategy).gradientsCross()) {
      CHECK_THROWS_AS(comparesWithLabels(strategy), std::logic_error);
      CHECK_THROWS_AS(labelsOf(strategy, 8, 4), std::logic_error);
    } else {
      CHECK(comparesWithLabels(strategy));
      CHECK(labelsOf(strategy, 8, 4).kind == LabelKind::orthogonal);
    }
  }
}

TEST_CASE("A plan forgets what has no effect under it, once and for all", "[plan]") {
  for (const std::string& kind : namesOf<StrategyKind>()) {
    INFO(kind);
    const RunConfig deck = effective(deckWith({"strategy/kind=" + kind, "strategy/recovery_epochs=2",
                                               "optimiser/kind=sgd", "optimiser/momentum=0"}));
    CHECK(writeDeck(effective(deck)) == writeDeck(deck));
    const StrategyPlan& plan = planOf(deck.strategy);
    CHECK(plan.stages(deck.strategy) == deck.strategy.stages);
    CHECK(plan.adviceFor(deck.strategy).not_learning.empty() == plan.gradientsCross());
    CHECK_FALSE(plan.course(deck.strategy).empty());
    const Partition partition = planPartition(deck, planNetwork(deck.network, {16}, 10), 10);
    CHECK(partition.stages.size() == static_cast<std::size_t>(plan.stages(deck.strategy)));
  }
}

TEST_CASE("A plan warns about a first stage with weights in too few layers", "[plan]") {
  const auto warnings = [](const RunConfig& deck, const Shape& input) {
    const RunConfig config = effective(deck);
    const Partition partition = planPartition(config, planNetwork(config.network, input, 10), 10);
    return planOf(config.strategy)
        .notes(config, partition, planGrid(config.strategy, partition, 1), sizeof(float))
        .warnings;
  };
  const auto lenet = [&](const std::string& labels, const std::string& cuts, const std::string& stages) {
    return warnings(loadDeck(sourceDirectory() + "/input-decks/lenet-mnist.toml",
                             {"strategy/kind=sil", "strategy/" + labels, "strategy/cuts=" + cuts,
                              "strategy/stages=" + stages}),
                    {1, 28, 28});
  };
  const auto block = [&](const std::string& labels) { // an entry with five layers
    return warnings(
        deckWith(
            {"network/layers=[{type=\"block\",layers=[{type=\"dense\",units=64,repeat=5}]},{type=\"dense\"}]",
             "strategy/kind=sil", "strategy/stages=2", "strategy/cuts=[1]", "strategy/" + labels}),
        {16});
  };
  const std::string few = "with weights in only one layer", three = "fewer than 3 layers with weights";
  const auto one = [](const std::vector<std::string>& found, const std::string& text) {
    return found.size() == 1 && found.front().find(text) != std::string::npos;
  };
  CHECK(one(lenet("labels=orthogonal", "[2,4]", "3"), few));
  CHECK(lenet("labels=learned", "[2,4]", "3").empty());
  CHECK(lenet("labels=orthogonal", "[4]", "2").empty());
  CHECK(one(lenet("loss=mse", "[4]", "2"), three));
  CHECK(block("labels=orthogonal").empty());
  CHECK(block("loss=mse").empty());
}

TEST_CASE("A plan warns about keys that have no effect", "[plan]") {
  const auto warnings = [](std::vector<std::string> overrides) {
    overrides.insert(overrides.begin(), {"strategy/kind=sil", "strategy/input=free", "strategy/cuts=[2,3]"});
    const RunConfig config = effective(deckWith(overrides));
    const Partition partition = planPartition(config, planNetwork(config.network, {16}, 10), 10);
    return planOf(config.strategy)
        .notes(config, partition, planGrid(config.strategy, partition, 1), sizeof(float))
        .warnings;
  };
  CHECK(warnings({"strategy/noise=0.5"}) ==
        std::vector<std::string>{"strategy/noise has no effect, because the inputs are mixtures of labels"});
  CHECK(warnings({"strategy/noise=1"}).empty()); // as every effective deck has it
  CHECK(warnings({"strategy/noise=0.5", "strategy/mixture=off"}).empty());
  for (const char* const input : {"relay", "frozen"})
    CHECK(warnings({"strategy/noise=0.5", std::string("strategy/input=") + input}) ==
          std::vector<std::string>{
              "strategy/noise has no effect, because the inputs are outputs of the previous stage"});
  CHECK(warnings({"strategy/label_pool=2"}) ==
        std::vector<std::string>{"strategy/label_pool has no effect, because the labels are fixed"});
  CHECK(warnings({"strategy/label_pool=2", "strategy/input=relay"}).empty());
  CHECK(warnings({"run/trace=2"}) ==
        std::vector<std::string>{
            "run/trace has no effect: without strategy/recovery_epochs, 'sil' has no schedule to trace"});
  CHECK(warnings({"run/trace=2", "strategy/recovery_epochs=1"}).empty());
}

TEST_CASE("The speed-up that cuts allow is that of a replica, and includes the idle time of a pipeline",
          "[plan]") {
  const auto found = [](const std::string& kind, int ranks, std::vector<std::string> overrides) {
    overrides.insert(overrides.begin(), {"strategy/kind=" + kind, "strategy/cuts=[2,3]"});
    const RunConfig config = effective(deckWith(overrides));
    const Partition partition = planPartition(config, planNetwork(config.network, {64}, 64), 64);
    const GridPlan grid = planGrid(config.strategy, partition, ranks);
    const StrategyPlan& plan = planOf(config.strategy);
    std::string line;
    for (const std::string& one : plan.notes(config, partition, grid, sizeof(float)).lines)
      if (one.find("speed-up") != std::string::npos) line = one;
    return std::make_tuple(plan.allowedSpeedup(config, partition, grid), partition.allowedSpeedup(), line);
  };
  const auto [piped, at_once, line] = found("pipeline", 3, {"strategy/microbatches=4"});
  CHECK(piped < 0.8 * at_once);
  CHECK(line.find(formatted("# the cuts allow a speed-up of %.2f over one rank; ", piped)) == 0);
  const auto [replica, unused, copies] =
      found("pipeline", 6, {"strategy/microbatches=4", "strategy/replicas=2"});
  CHECK(replica == piped);
  CHECK(copies.find(formatted("# the cuts allow each replica a speed-up of %.2f over one rank; ", piped)) ==
        0);
  const auto [sil, same, text] = found("sil", 6, {"strategy/replicas=2"});
  CHECK(sil == same);
  CHECK(text == formatted("# the cuts allow each replica a speed-up of %.2f over one rank if each rank has "
                          "one stage and all train at once",
                          sil));
}

TEST_CASE("The phases of a run are what its strategy makes of it", "[plan]") {
  const auto length = [](const std::vector<std::string>& overrides) {
    return planRunLength(effective(deckWith(overrides)), 1280);
  };
  CHECK(length({"strategy/kind=joint", "strategy/recovery_epochs=2"}).recovery_steps == 0);
  CHECK(length({"strategy/kind=sil", "strategy/recovery_epochs=2"}).recovery_steps == 20);
  CHECK(length({"strategy/kind=pipeline", "strategy/input=frozen"}).turns == 1);
  CHECK(length({"strategy/kind=sil", "strategy/input=frozen"}).turns == 3);
}

TEST_CASE("A run with more steps than can be added up is refused", "[plan]") {
  const auto refusal = [](const std::vector<std::string>& overrides, std::int64_t samples) -> std::string {
    try {
      const RunConfig config = effective(deckWith(overrides));
      const RunLength length = planRunLength(config, samples); // also of a run that has ended: never refused
      CHECK(length.total() > 0);
      checkLength(config.run, length);
      CHECK(length.total() <= most_run_steps);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  constexpr std::int64_t few = 1280, many = 128000000000; // 10 and 10^9 batches of an epoch
  const std::string sil = "strategy/kind=sil", frozen = "strategy/input=frozen",
                    most = "run/steps=100000000000",
                    refused = ": the run would have more than 100000000000 steps";
  CHECK(refusal({most}, few).empty());
  CHECK(refusal({sil, most}, few).empty());
  CHECK(refusal({sil, frozen, "run/steps=30000000000"}, few).empty());
  CHECK(refusal({sil, "run/epochs=1000000", "strategy/recovery_epochs=1000000"}, few).empty());
  CHECK(refusal({sil, most, "strategy/recovery_epochs=1"}, few).find("run/steps" + refused) == 0);
  CHECK(refusal({sil, frozen, "run/steps=40000000000"}, few).find("run/steps" + refused) == 0);
  CHECK(refusal({"run/epochs=1000000000"}, many).find("run/epochs" + refused) == 0);
  CHECK(refusal({sil, frozen, "run/epochs=1000000000"}, many).find("run/epochs" + refused) == 0);
  CHECK(refusal({sil, "strategy/recovery_epochs=1000000000"}, many).find("run/epochs" + refused) == 0);
}

TEST_CASE("Replicas that meet say in which steps", "[plan]") {
  const auto note = [](std::vector<std::string> overrides) {
    overrides.emplace_back("strategy/kind=local-sgd");
    const RunConfig config = effective(deckWith(overrides));
    const Partition partition = planPartition(config, planNetwork(config.network, {16}, 10), 10);
    return planOf(config.strategy)
        .notes(config, partition, planGrid(config.strategy, partition, 2), sizeof(float))
        .lines.back();
  };
  const std::string eighth = "# 2 replicas: every 8 steps they average their parameters, with 1/8 of the "
                             "traffic of summed gradients; ";
  CHECK(note({"strategy/every=8"}) == eighth + "the last step also ends with a meeting");
  CHECK(note({"strategy/every=8", "strategy/warmup_steps=20"}) ==
        eighth + "20 steps at the start and the last one also end with a meeting");
  CHECK(note({"strategy/every=1", "strategy/warmup_steps=20"}) ==
        "# 2 replicas: every step they average their parameters, with as much traffic as summed gradients");
}

} // namespace partita::test::plan_strategies
