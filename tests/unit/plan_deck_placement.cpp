#include "partita/config/deck.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/placement/deck_placement.hpp"
#include "partita/plan/placement/placement_search.hpp"
#include "partita/plan/placement/save_memory.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "support/catch.hpp"
#include "support/source_directory.hpp"

namespace partita::test::plan_deck_placement {

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
      double best = std::numeric_limits<double>::infinity();
      for (std::int64_t mask = 0; mask < 1 << (count - 1); ++mask) {
        DeckPlacement other;
        for (std::int64_t layer = 1; layer < count; ++layer)
          if ((mask >> (layer - 1) & 1) != 0) other.cuts.push_back(layer);
        for (other.replicas = 1; other.ranks() <= ranks; ++other.replicas) {
          for (const std::int64_t microbatches : {1, 2, 4, 8}) {
            other.microbatches = microbatches;
            if (96 % other.replicas != 0) continue;
            placer.price(other);
            best = std::min(best, other.step);
          }
        }
      }
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
