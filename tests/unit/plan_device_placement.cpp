#include "partita/config/user_error.hpp"
#include "partita/plan/placement/placement_search.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "placement_tasks.hpp"
#include "support/catch.hpp"
#include "support/computing_time.hpp"

namespace partita::test::plan_device_placement {

namespace {

/// A chain, cut before the layers of `cuts`, which begin with 0. Written again from the equations, which are
/// simple for chains.
double timeOfChain(const PlacementTask& task, const LayerGraph& graph, const std::vector<int>& cuts,
                   std::int64_t replicas) {
  const double infinite = std::numeric_limits<double>::infinity();
  double slowest = 0.0, first = 0.0;
  std::int64_t devices = 0;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const std::size_t begin = cuts[i], end = i + 1 < cuts.size() ? cuts[i + 1] : graph.layers.size();
    const std::size_t from_end = cuts.size() - i;
    const double in = begin > 0 ? graph.edges[begin - 1].bytes : 0.0;
    const double out = end < graph.layers.size() ? graph.edges[end - 1].bytes : 0.0;
    double weights = 0.0, kept = 0.0, forward = 0.0, backward = 0.0;
    bool parallel = false;
    for (std::size_t layer = begin; layer < end; ++layer) {
      weights += graph.layers[layer].parameter_bytes;
      kept += graph.layers[layer].activation_bytes;
      forward += graph.layers[layer].forward;
      backward += graph.layers[layer].backward;
      parallel = parallel || graph.layers[layer].tensor_parallel;
    }
    const double stash = task.recompute ? in : kept;
    const double memory =
        (task.adam ? 3.0 : 2.0) * weights + kept + static_cast<double>(from_end - 1) * stash;
    if (memory > task.memory * (1.0 + 1e-13)) return infinite;
    const bool again = task.recompute && from_end > 1;
    const double gradients = again ? std::max(forward, out / task.bandwidth) : out / task.bandwidth;
    slowest = std::max(slowest, in / task.bandwidth + forward + gradients + backward);
    devices += parallel ? graph.tensor_degree : 1;
    if (i == 0) first = weights;
  }
  if (devices * replicas > task.devices) return infinite;
  const double copies = static_cast<double>(replicas);
  const double rounds = std::ceil(static_cast<double>(task.microbatches) / copies);
  return slowest * (rounds + static_cast<double>(cuts.size()) - 1.0) +
         4.0 * (copies - 1.0) / copies * first / task.bandwidth;
}

double fastestChain(const PlacementTask& task) {
  double best = std::numeric_limits<double>::infinity();
  for (const LayerGraph& graph : task.graphs) {
    for (unsigned mask = 0; mask < 1U << (graph.layers.size() - 1); ++mask) {
      std::vector<int> cuts = {0};
      for (int i = 1; i < static_cast<int>(graph.layers.size()); ++i)
        if ((mask >> (i - 1) & 1U) != 0) cuts.push_back(i);
      for (std::int64_t replicas = 1;
           replicas <= std::min({task.devices, task.microbatches, task.most_replicas}); ++replicas)
        best = std::min(best, timeOfChain(task, graph, cuts, replicas));
    }
  }
  return best;
}

void checkPlan(const PlacementTask& task, const DevicePlan& plan) {
  REQUIRE(plan.feasible == plan.limit.empty());
  if (!plan.feasible) return;
  const std::optional<double> again = timeOfPlan(task, plan.graph, plan.stages, plan.replicas);
  REQUIRE(again.has_value());
  REQUIRE(*again == Approx(plan.time).epsilon(1e-12));
  std::size_t layers = 0;
  for (const PlacedStage& stage : plan.stages) layers += stage.layers.size();
  REQUIRE(layers == task.graphs[plan.graph].layers.size());
}

double timeOf(const DevicePlan& plan) {
  return plan.feasible ? plan.time : std::numeric_limits<double>::infinity();
}

void compareWithAll(std::uint64_t seed, int cases) {
  Random random(seed);
  int feasible = 0;
  for (int i = 0; i < cases; ++i) {
    INFO("case " << i << " of seed " << seed);
    const bool branches = i % 2 == 0;
    const PlacementTask task = randomTask(random, branches ? 7 : 9, branches);
    const DevicePlan plan = placeLayers(task);
    checkPlan(task, plan);
    const double best = branches ? timeOf(placeByBruteForce(task)) : fastestChain(task);
    REQUIRE(plan.feasible == std::isfinite(best));
    if (plan.feasible) REQUIRE(plan.time == Approx(best).epsilon(1e-9));
    feasible += plan.feasible ? 1 : 0;
  }
  REQUIRE(feasible > cases / 4);
  REQUIRE(feasible < cases);
}

/// A transformer with an embedding and a head, like those of the paper.
PlacementTask longChain(int layers) {
  Random random(5);
  PlacementTask task;
  task.memory = 32.0;
  task.bandwidth = 4.0;
  task.devices = 1024;
  task.microbatches = 4096;
  task.graphs.push_back(randomGraph(random, layers, 1, false));
  return task;
}

/// Equal layers, of which the first stands for an embedding.
LayerGraph equalChain(int tensor_degree, int layers) {
  LayerGraph graph{tensor_degree, {}, {}};
  for (int i = 0; i < layers; ++i) {
    graph.layers.push_back({i - 1, 3, 2, 1.0, 2.0, tensor_degree > 1});
    if (i > 0) graph.edges.push_back({i - 1, i, 5.0});
  }
  return graph;
}

} // namespace

TEST_CASE("Plans are as fast as the best of all", "[plan][placement][sweep]") {
  compareWithAll(20240713, 400);
}

TEST_CASE("A thousand plans are as fast as the best of all", "[.][placement_soak]") {
  compareWithAll(1, 2000);
}

TEST_CASE("Incremental costs of the stages of a chain equal those computed separately", "[plan][placement]") {
  Random random(6);
  int chains = 0;
  for (int i = 0; i < 200; ++i) {
    INFO("case " << i);
    const PlacementTask task = randomTaskWith(random, 12, i % 4 == 0, i % 2 == 0, i % 3 == 0);
    for (const LayerGraph& graph : task.graphs) {
      const detail::StageCosts costs(task, graph);
      const std::vector<BitSet> sets = detail::successorClosedSets(costs);
      if (i % 4 != 0) REQUIRE(costs.isChain());
      if (!costs.isChain()) continue;
      ++chains;
      REQUIRE(sets.size() == graph.layers.size() + 1);
      std::vector<detail::StageCost> grown;
      for (std::size_t set = 1; set < sets.size(); ++set) {
        costs.addFirst(grown);
        REQUIRE(grown.size() == set);
        for (std::size_t rest = 0; rest < set; ++rest) {
          BitSet inside(graph.layers.size());
          for (const int layer : costs.order())
            if (sets[set].has(layer) && !sets[rest].has(layer)) inside.add(layer);
          const detail::StageCost alone = costs.of(inside), &cost = grown[rest];
          REQUIRE(cost.forward == alone.forward);
          REQUIRE(cost.backward == alone.backward);
          REQUIRE(cost.parameter_bytes == alone.parameter_bytes);
          REQUIRE(cost.activation_bytes == alone.activation_bytes);
          REQUIRE(cost.entering_bytes == alone.entering_bytes);
          REQUIRE(cost.tensor_parallel == alone.tensor_parallel);
        }
      }
    }
  }
  REQUIRE(chains > 150);
}

TEST_CASE("One device computes all layers one after another", "[plan][placement]") {
  Random random(2);
  PlacementTask task = longChain(12);
  task.devices = 1;
  const DevicePlan plan = placeLayers(task);
  double load = 0.0;
  for (const PlacedLayer& layer : task.graphs[0].layers) load += layer.forward + layer.backward;
  REQUIRE(plan.feasible);
  REQUIRE(plan.stages.size() == 1);
  REQUIRE(plan.time == Approx(4096.0 * load).epsilon(1e-12));
}

TEST_CASE("More memory never hurts; with enough of it nothing is computed twice",
          "[plan][placement][sweep]") {
  Random random(3);
  for (int i = 0; i < 60; ++i) {
    INFO("case " << i);
    PlacementTask task = randomTask(random, 9, i % 2 == 0);
    double before = std::numeric_limits<double>::infinity();
    for (task.memory = 0.5; task.memory < 100.0; task.memory *= 2.0) {
      const double time = timeOf(placeLayers(task));
      REQUIRE(time <= before);
      before = time;
    }
    task.memory = 1e9;
    task.recompute = false;
    const double plain = timeOf(placeLayers(task));
    REQUIRE(plain <= before);
    task.adam = !task.adam; // makes no difference without a limit
    REQUIRE(timeOf(placeLayers(task)) == plain);
  }
}

TEST_CASE("The order and the names of layers make no difference", "[plan][placement]") {
  Random random(4);
  for (int i = 0; i < 60; ++i) {
    INFO("case " << i);
    const PlacementTask task = randomTask(random, 8, true);
    PlacementTask shuffled = task;
    for (LayerGraph& graph : shuffled.graphs) {
      const int count = static_cast<int>(graph.layers.size());
      std::vector<int> order(count), place(count);
      std::iota(order.begin(), order.end(), 0);
      for (int k = count - 1; k > 0; --k) std::swap(order[k], order[below(random, k + 1)]);
      const LayerGraph before = graph;
      for (int k = 0; k < count; ++k) {
        graph.layers[k] = before.layers[order[k]];
        graph.layers[k].id = 1000 - k;
        place[order[k]] = k;
      }
      for (LayerEdge& edge : graph.edges) edge = {place[edge.from], place[edge.to], edge.bytes};
    }
    const DevicePlan plan = placeLayers(task), other = placeLayers(shuffled);
    REQUIRE(plan.feasible == other.feasible);
    if (plan.feasible) REQUIRE(other.time == Approx(plan.time).epsilon(1e-12));
  }
}

TEST_CASE("The limit of tasks without a plan is named", "[plan][placement]") {
  PlacementTask task;
  task.memory = 100.0;
  task.devices = 2;
  task.graphs.push_back({1, {{7, 51, 0, 1, 1, false}}, {}});
  REQUIRE(placeLayers(task).limit == "tensor degree 1: layer 7 needs 102 bytes on a device of 100");
  task.graphs[0] = {4, {{7, 10, 0, 1, 1, true}}, {}};
  REQUIRE(placeLayers(task).limit == "tensor degree 4: layer 7 needs 4 devices of 2");
  task.graphs[0] = {1, {{7, 20, 30, 1, 1, false}, {8, 20, 30, 1, 1, false}}, {{0, 1, 1}}};
  task.adam = true;
  REQUIRE(placeLayers(task).limit ==
          "tensor degree 1: no cut for 2 devices of 100 bytes has room for the microbatches in flight");
  REQUIRE(placeByBruteForce(task).limit == placeLayers(task).limit);
  task.memory = 121.0; // a stage more keeps 30 bytes more
  REQUIRE(placeLayers(task).stages.size() == 2);
}

TEST_CASE("A thousand devices take no time", "[plan][placement][speed]") {
  const PlacementTask task = longChain(34);
  constexpr double limit = 0.5; // s; it takes a millisecond
  DevicePlan plan;
  REQUIRE(computingTime(limit, [&] { plan = placeLayers(task); }) < limit);
  REQUIRE(plan.feasible);
}

TEST_CASE("A fixed plan has its price, or none where it does not fit", "[plan][placement]") {
  PlacementTask task;
  task.memory = 100.0;
  task.bandwidth = 10.0;
  task.devices = 8;
  task.microbatches = 6;
  task.graphs.push_back(equalChain(1, 5));
  REQUIRE(!timeOfFixedPlan(task));
  task.fixed = FixedPlan{2, 1, 3, 4};
  // Stages of two and of three layers. The last is slower: 3 + 6 and 0.5 to receive; 2 + 2 - 1 rounds, and
  // the all-reduce of 6 bytes.
  REQUIRE(*timeOfFixedPlan(task) == Approx(9.5 * 3.0 + 4.0 * 2.0 / 3.0 * 6.0 / 10.0));
  REQUIRE(placeLayers(task).time <= *timeOfFixedPlan(task));
  for (const FixedPlan& none : {FixedPlan{2, 2, 1, 4}, FixedPlan{2, 1, 5, 4}, FixedPlan{5, 1, 1, 4},
                                FixedPlan{1, 1, 7, 4}, FixedPlan{6, 1, 1, 6}}) {
    task.fixed = none;
    REQUIRE(!timeOfFixedPlan(task));
  }
  REQUIRE(timeOfPlan(task, 0, {{{0, 1, 2, 3}, 1}, {{4}, 1}}, 1));
  REQUIRE(!timeOfPlan(task, 0, {{{4}, 1}, {{0, 1, 2, 3}, 1}}, 1)); // a layer before those that it needs
  task.fixed = FixedPlan{2, 1, 3, 4};
  task.memory = 20.0;
  REQUIRE(!timeOfFixedPlan(task));
  REQUIRE(placeLayers(task).feasible);
}

TEST_CASE("A fixed plan rounds its shares up, and may leave stages empty", "[plan][placement]") {
  PlacementTask task;
  task.memory = 140.0;
  task.bandwidth = 10.0;
  task.devices = 64;
  task.microbatches = 6;
  task.graphs.push_back(equalChain(2, 50)); // 48 layers and a head, as in GPT-2 XL
  task.fixed = FixedPlan{32, 2, 1, 48};
  // 24 stages of two layers, seven without layers, and the last one of two: each takes 6, and 0.5 both to
  // receive values and to receive gradients.
  REQUIRE(*timeOfFixedPlan(task) == Approx((6.0 + 1.0) * (6.0 + 32.0 - 1.0)));
  task.devices = 63; // empty stages have two devices, too
  REQUIRE_FALSE(timeOfFixedPlan(task));
  task.devices = 64;
  task.memory = 139.0; // the first stage keeps the values of 32 microbatches: 2 * 6 + 32 * 4
  REQUIRE_FALSE(timeOfFixedPlan(task));
  task.memory = 210.0; // 2 * 9 + 32 * 6 for the first stage with the embedding besides its share
  task.fixed->before = 1;
  REQUIRE(*timeOfFixedPlan(task) == Approx((9.0 + 0.5) * 37.0));
  task.memory = 209.0;
  REQUIRE_FALSE(timeOfFixedPlan(task));
  task.fixed->before = 0;
  task.node_devices = 64; // what crosses empty stages is sent as if between nodes
  task.node_bandwidth = 1e9;
  REQUIRE(*timeOfFixedPlan(task) == Approx((6.0 + 0.5) * 37.0));

  task.node_devices = 1;
  task.graphs[0].layers.resize(9);
  task.graphs[0].edges.resize(8);
  task.fixed = FixedPlan{4, 2, 1, 9}; // three stages of three layers, and an empty one at the end
  REQUIRE(*timeOfFixedPlan(task) == Approx((9.0 + 1.0) * (6.0 + 4.0 - 1.0)));
  task.fixed = FixedPlan{8, 2, 1, 7}; // more stages than transformer layers
  REQUIRE_FALSE(timeOfFixedPlan(task));
}

TEST_CASE("Networks with too many cuts are refused", "[plan][placement]") {
  PlacementTask task;
  task.memory = 1e9;
  task.devices = 4;
  LayerGraph graph{2, {}, {}};
  for (int i = 0; i < 16; ++i) graph.layers.push_back({i, 1, 1, 1, 1, true});
  task.graphs.push_back(graph);
  REQUIRE_THROWS_WITH(placeLayers(task),
                      "nodes/2: the layers can be cut in more than 40,000 places; merge layers of parallel "
                      "branches");
  REQUIRE_THROWS_WITH(placeByBruteForce(task), "--brute-force takes at most 12 layers and 1000 microbatches");
}

} // namespace partita::test::plan_device_placement
