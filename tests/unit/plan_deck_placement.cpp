#include "partita/config/deck.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/placement/deck_placement.hpp"
#include "partita/plan/placement/placement_search.hpp"
#include "partita/plan/placement/save_memory.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/source_directory.hpp"

namespace partita::test::plan_deck_placement {

namespace {

/// The shortest predicted step of all cuts, replicas that divide the batch, and microbatches that fit.
double bestStep(const DeckPlacer& placer, std::int64_t layers, std::int64_t ranks, std::int64_t batch,
                double memory = 0.0) {
  double best = std::numeric_limits<double>::infinity();
  for (std::int64_t mask = 0; mask < 1 << (layers - 1); ++mask) {
    DeckPlacement plan;
    for (std::int64_t layer = 1; layer < layers; ++layer)
      if ((mask >> (layer - 1) & 1) != 0) plan.cuts.push_back(layer);
    for (plan.replicas = 1; plan.ranks() <= ranks; ++plan.replicas) {
      if (batch % plan.replicas != 0) continue;
      for (const std::int64_t microbatches : {1, 2, 4, 8}) {
        plan.microbatches = microbatches;
        placer.price(plan);
        if (memory == 0.0 || plan.memory <= memory) best = std::min(best, plan.step);
      }
    }
  }
  return best;
}

/// Chains of dense layers, and clusters, in which messages, sums or updates may matter most.
class RandomDecks {
 public:
  RunConfig deck() {
    std::string text = "[network]\nlayers = [";
    for (std::uint32_t more = 2 + _random() % 4; more > 0; --more)
      text += "{ type = \"dense\", units = " + oneOf({"32", "128", "512", "2048"}) + " }, ";
    text += "{ type = \"dense\" }]\n";
    text += "[run]\nprecision = " + oneOf({"\"float\"", "\"bf16\""}) + "\n";
    text += "[training]\nbatch = " + oneOf({"96", "97"}) + "\n"; // 97: one replica
    text += "[optimiser]\nkind = " + oneOf({"\"adam\"", "\"sgd\""}) + "\n";
    text += "[strategy]\nkind = \"pipeline\"\nstages = 2\n";
    text += "wire = " + oneOf({"\"auto\"", "\"bf16\""}) + "\n";
    text += "schedule = " + oneOf({"\"1f1b\"", "\"message-driven\""}) + "\n";
    return effective(parseDeck(text, "deck"));
  }
  Cluster cluster() {
    Cluster cluster;
    cluster.flops = 1e11;
    cluster.overlap = oneOf({0.0, 0.5, 1.0});
    cluster.seconds_per_update = oneOf({0.0, 1e-9});
    cluster.seconds_per_reduced_byte = oneOf({0.0, 1e-10});
    const double latency = oneOf({1e-6, 3e-5}), seconds_per_byte = oneOf({1e-7, 1e-8, 1e-9, 1e-10});
    cluster.links.rows = {{1 << 20, {latency, seconds_per_byte, {}}}};
    if (oneOf({0.0, 1.0, 2.0}) > 0.0) return cluster;
    cluster.node_ranks = 2;
    cluster.links.rows.insert(cluster.links.rows.begin(), {2, {1e-6, 0.1 * seconds_per_byte, {}}});
    return cluster;
  }
  std::string oneOf(std::initializer_list<const char*> values) {
    return values.begin()[_random() % values.size()];
  }
  double oneOf(std::initializer_list<double> values) { return values.begin()[_random() % values.size()]; }

 private:
  std::mt19937 _random{5};
};

} // namespace

TEST_CASE("Random decks are placed about as well as any cuts, replicas and microbatches allow",
          "[plan][placement]") {
  constexpr int decks = 300;
  RandomDecks random;
  int worse = 0, in_pieces = 0, replicated = 0;
  for (int number = 0; number < decks; ++number) {
    const RunConfig deck = random.deck();
    Cluster cluster = random.cluster();
    const std::int64_t ranks = static_cast<std::int64_t>(random.oneOf({2.0, 3.0, 4.0}));
    const CostTask task = costTask(deck, {static_cast<std::int64_t>(random.oneOf({64.0, 784.0}))}, 10, 9600);
    const CostModel model(task, cluster, CostMode::exact);
    const DeckPlacer placer(model, cluster, 0);
    if (number % 3 == 0) { // memory matters too
      DeckPlacement whole;
      placer.price(whole);
      cluster.memory = random.oneOf({0.5, 0.7, 0.9}) * whole.memory;
    }
    const double best =
        bestStep(placer, unrolledLayers(deck.network), ranks, deck.training.batch, cluster.memory);
    const std::optional<DeckPlacement> plan = placer.fastest(ranks);
    INFO("deck " << number << " on " << ranks << " ranks");
    if (std::isinf(best)) {
      REQUIRE_FALSE(plan.has_value());
      continue;
    }
    REQUIRE(plan.has_value());
    REQUIRE(plan->step >= best);
    CHECK(plan->step <= 1.1 * best);
    worse += plan->step > 1.03 * best ? 1 : 0;
    in_pieces += plan->cuts.empty() ? 0 : 1;
    replicated += plan->replicas > 1 ? 1 : 0;
  }
  CHECK(worse <= 1);
  CHECK(in_pieces > 20);
  CHECK(replicated > 20);
}

TEST_CASE("A deck is placed about as well as any cuts, replicas and microbatches allow",
          "[plan][placement]") {
  RunConfig deck = effective(loadDeck(sourceDirectory() + "/input-decks/demo.toml", {}));
  std::vector<LayerPlan> layers = planNetwork(deck.network, {784}, 47);
  const auto count = static_cast<std::int64_t>(layers.size());
  CostTask task;
  task.layers = layerCosts(layers);
  task.batch = 96.0;
  deck.strategy.pipeline.schedule = PipelineSchedule::one_f_one_b;
  deck.training.batch = 96;
  task.program = std::make_shared<Program>(deck, layers);
  int usual_cuts = 0, other_cuts = 0;
  for (const double bandwidth : {1e8, 1e9, 1e11}) {
    for (const std::int64_t ranks : {1, 2, 3, 4}) {
      INFO(bandwidth << " bytes/s, " << ranks << " ranks");
      Cluster cluster;
      cluster.links.rows[0].link = {1e-6, 1.0 / bandwidth, {}};
      cluster.flops = 1e11;
      const CostModel model(task, cluster, CostMode::exact);
      const DeckPlacer placer(model, cluster, 0);
      const std::optional<DeckPlacement> plan = placer.fastest(ranks);
      REQUIRE(plan.has_value());
      REQUIRE(plan->ranks() <= ranks);
      const double best = bestStep(placer, count, ranks, deck.training.batch);
      REQUIRE(plan->step >= best);
      REQUIRE(plan->step <= 1.03 * best);

      // Other plans for all ranks have to be 2 % faster than cuts by FLOPs.
      DeckPlacement usual;
      usual.cuts.resize(ranks - 1);
      StrategySection section = usual.strategy(deck.strategy);
      section.cut_rule = CutRule::flops;
      section.cuts.clear();
      usual.cuts = task.program->run(section, ranks).partition.cuts;
      const bool kept = plan->ranks() == ranks && plan->replicas == 1 && plan->cuts == usual.cuts;
      for (usual.microbatches = 1; !kept && plan->ranks() == ranks && usual.microbatches <= 8;
           usual.microbatches *= 2) {
        placer.price(usual);
        REQUIRE(0.98 * usual.step >= plan->step);
      }
      if (ranks > 1) ++(kept ? usual_cuts : other_cuts);

      // What fits on no rank is no plan; what needs several ranks uses them.
      DeckPlacement whole;
      placer.price(whole);
      cluster.memory = 0.7 * whole.memory;
      const std::optional<DeckPlacement> divided = placer.fastest(ranks);
      REQUIRE(divided.has_value() == (ranks > 1));
      if (divided) REQUIRE(divided->memory <= cluster.memory);
      cluster.memory = 1e3;
      REQUIRE_FALSE(placer.fastest(ranks).has_value());
    }
  }
  REQUIRE(usual_cuts > 0);
  REQUIRE(other_cuts > 0);
}

TEST_CASE("More ranks make no placed step longer", "[plan][placement]") {
  RunConfig deck = effective(loadDeck(sourceDirectory() + "/input-decks/demo.toml", {}));
  for (const bool nodes : {false, true}) {
    Cluster cluster;
    cluster.flops = 1e10;
    cluster.links.rows[0].link = {1e-6, 1e-10, {}};
    if (nodes) {
      cluster.node_ranks = 2;
      cluster.links.rows = {{2, {1e-6, 1e-10, {}}}, {1 << 20, {50e-6, 1e-8, {}}}};
    }
    const CostModel model(costTask(deck, {784}, 47, 1000), cluster, CostMode::exact);
    const DeckPlacer placer(model, cluster, 0);
    double best = std::numeric_limits<double>::infinity();
    for (std::int64_t ranks = 1; ranks <= 12; ++ranks) {
      INFO(ranks << " ranks, nodes " << nodes);
      const std::optional<DeckPlacement> plan = placer.fastest(ranks);
      REQUIRE(plan.has_value());
      CHECK(plan->step <= 1.03 * best);
      best = std::min(best, plan->step);
    }
  }
}

TEST_CASE("A placed deck has the step that the cost model predicts for it", "[plan][placement]") {
  RunConfig deck = effective(loadDeck(sourceDirectory() + "/input-decks/demo.toml", {}));
  deck.training.batch = 96;
  Cluster cluster;
  cluster.node_ranks = 2;
  cluster.links.rows = {{2, {1e-6, 1e-10, {}}}, {1 << 20, {1e-5, 1e-9, {}}}};
  const CostModel model(costTask(deck, {784}, 47, 1000), cluster, CostMode::exact);
  for (const std::int64_t ranks : {1, 2, 4}) {
    INFO(ranks << " ranks");
    const std::optional<DeckPlacement> plan = DeckPlacer(model, cluster, 0).fastest(ranks);
    REQUIRE(plan.has_value());
    RunConfig placed = deck;
    placed.strategy = plan->strategy(deck.strategy);
    const CostModel again(costTask(placed, {784}, 47, 1000), cluster, CostMode::exact);
    const ProgramRun run = again.task().program->run(plan->ranks());
    REQUIRE(again.predict(run).stepSeconds() == plan->step);
    REQUIRE(run.memory() == plan->memory);
  }
}

TEST_CASE("A deck is not cut between an embedding and the layer that is tied to it", "[plan][placement]") {
  const std::string block = "{ type = \"dense\", units = 16, repeat = 4 }, ",
                    head = "{ type = \"dense\", bias = false";
  Cluster cluster;
  cluster.flops = 1e7;
  for (const bool tied : {false, true}) {
    RunConfig deck =
        parseDeck("[data]\nkind = \"grammar\"\n[network]\nlayers = [{ type = \"embedding\", width = 16 }, " +
                      block + head + (tied ? ", tied = true" : "") + " }]\n[training]\nbatch = 64\n",
                  "deck");
    const CostModel model(costTask(deck, {32}, 8, 1000), cluster, CostMode::exact);
    const DeckPlacer placer(model, cluster, 0);
    const std::optional<DeckPlacement> plan = placer.fastest(4);
    REQUIRE(plan.has_value());
    REQUIRE(plan->ranks() > 1);
    if (tied) REQUIRE(plan->cuts.empty());
    DeckPlacement cut;
    cut.cuts = {3};
    REQUIRE(placer.fits(cut) != tied);
  }
}

TEST_CASE("A deck whose table of cuts would be too large is placed with balanced cuts", "[plan][placement]") {
  constexpr std::int64_t count = 323; // the fewest layers whose table is too large, on as many ranks
  for (const std::int64_t layers : {count - 1, count}) {
    PlacementTask task;
    task.node_devices = task.devices = layers - 1;
    LayerGraph graph;
    graph.layers.resize(static_cast<std::size_t>(layers));
    REQUIRE(detail::tableFits(task, graph, graph.layers.size() + 1) == (layers < count));
  }
  const RunConfig deck = effective(
      parseDeck("[network]\nlayers = [{ type = \"dense\", units = 16, repeat = " + std::to_string(count - 1) +
                    " }, { type = \"dense\" }]\n[training]\nbatch = 367\n", // prime: one replica
                "deck"));
  Cluster cluster;
  cluster.flops = 1e9;
  cluster.node_ranks = count - 1;
  cluster.links.rows = {{count - 1, {1e-2, 1e-11, {}}}, {1 << 20, {1e-1, 1e-10, {}}}};
  const CostModel model(costTask(deck, {16}, 16, 1000), cluster, CostMode::exact);
  const std::optional<DeckPlacement> plan = DeckPlacer(model, cluster, 2).fastest(count);
  REQUIRE(plan.has_value());
  REQUIRE(plan->stages() > 1);
}

TEST_CASE("Layers that recompute become entries of their own", "[plan][placement]") {
  const std::string layers = "layers = [{ type = \"dense\", units = 4 }]";
  const RunConfig deck =
      parseDeck("[network]\nlayers = [{ type = \"block\", repeat = 5, " + layers +
                    " }, { type = \"dense\", units = 4, repeat = 2 }, { type = \"residual\", "
                    "recompute = true, " +
                    layers + " }, { type = \"dense\" }]\n",
                "deck");
  REQUIRE(unrolledLayers(deck.network) == 9);
  REQUIRE(canRecompute(deck.network));
  const NetworkSection changed =
      withRecomputation(deck.network, {false, true, true, false, false, true, true, false, true});
  std::vector<std::pair<std::int64_t, bool>> entries;
  for (const LayerSpec& layer : changed.layers) entries.emplace_back(layer.repeat, layer.recompute);
  REQUIRE(entries == std::vector<std::pair<std::int64_t, bool>>{
                         {1, false}, {2, true}, {2, false}, {2, false}, {1, true}, {1, false}});
  const NetworkSection all = withRecomputation(deck.network, std::vector<bool>(9, true));
  REQUIRE(all.layers.size() == 4);
  REQUIRE_FALSE(canRecompute(all));

  RunConfig plain;
  plain.optimiser.kind = OptimiserKind::sgd;
  plain.optimiser.momentum = 0.0;
  REQUIRE_FALSE(canOffload(plain));
  plain.optimiser.momentum = 0.5;
  REQUIRE(canOffload(plain));
  plain.optimiser.offload = Offload::file;
  REQUIRE_FALSE(canOffload(plain));
}

} // namespace partita::test::plan_deck_placement
