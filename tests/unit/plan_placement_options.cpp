#include <algorithm>
#include <limits>

#include "placement_tasks.hpp"
#include "support/catch.hpp"
#include "support/computing_time.hpp"

namespace partita::test::plan_placement_options {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// A way to cut a chain: the first layer of each stage, which stages open a node, and how many replicas.
struct Cuts {
  std::vector<int> first;
  std::vector<bool> opens_node;
  std::int64_t replicas = 1;
};

/// Seconds of a sum over replicas, of which `each` are on a node: those of a node reduce and gather their
/// values with one another, and the nodes sum in between what each device has.
double sumTime(const PlacementTask& task, double bytes, std::int64_t replicas, std::int64_t each) {
  const double d = static_cast<double>(replicas), g = static_cast<double>(each);
  return 4.0 * bytes * ((g - 1.0) / g / task.node_bandwidth + (d / g - 1.0) / (d / g) / g / task.bandwidth);
}

/// Devices of a stage of a chain.
std::int64_t devicesOf(const LayerGraph& graph, std::size_t begin, std::size_t end) {
  return std::any_of(graph.layers.begin() + static_cast<std::ptrdiff_t>(begin),
                     graph.layers.begin() + static_cast<std::ptrdiff_t>(end),
                     [](const PlacedLayer& layer) { return layer.tensor_parallel; })
             ? graph.tensor_degree
             : 1;
}

/// How many replicas a node may have; 0: the stages or the replicas do not fit.
std::int64_t replicasOfNode(const PlacementTask& task, const LayerGraph& graph, const Cuts& cuts) {
  std::vector<std::int64_t> used; // of each node
  for (std::size_t i = 0; i < cuts.first.size(); ++i) {
    const std::size_t end = i + 1 < cuts.first.size() ? cuts.first[i + 1] : graph.layers.size();
    const std::int64_t own = devicesOf(graph, cuts.first[i], end);
    if (cuts.opens_node[i]) {
      for (std::int64_t left = own; left > 0; left -= task.node_devices) // one, or several whole ones
        used.push_back(own > task.node_devices ? task.node_devices : own);
    } else {
      used.back() += own;
      if (used.back() > task.node_devices) return 0;
    }
  }
  const std::int64_t all = task.devices / task.node_devices, count = static_cast<std::int64_t>(used.size());
  const std::int64_t each = count == 1 ? task.node_devices / used[0] : 1;
  return cuts.replicas <= (count == 1 ? all * each : all / count) ? std::min(each, cuts.replicas) : 0;
}

/// Seconds per microbatch of a stage of a chain with the best of its options, again from the equations.
double loadOf(const PlacementTask& task, const LayerGraph& graph, const Cuts& cuts, std::size_t i,
              std::int64_t each) {
  const std::size_t begin = cuts.first[i];
  const bool last = i + 1 == cuts.first.size();
  const std::size_t end = last ? graph.layers.size() : cuts.first[i + 1];
  const auto earlier = static_cast<double>(cuts.first.size() - i - 1); // microbatches that it keeps besides
  double weights = 0.0, kept = 0.0, forward = 0.0, backward = 0.0;
  for (std::size_t layer = begin; layer < end; ++layer) {
    weights += graph.layers[layer].parameter_bytes;
    kept += graph.layers[layer].activation_bytes;
    forward += graph.layers[layer].forward;
    backward += graph.layers[layer].backward;
  }
  const auto speed = [&](bool opens) { return opens ? task.bandwidth : task.node_bandwidth; };
  const double in_bytes = begin > 0 ? graph.edges[begin - 1].bytes : 0.0;
  const double in = in_bytes / speed(cuts.opens_node[i]);
  const double out = last ? 0.0 : graph.edges[end - 1].bytes / speed(cuts.opens_node[i + 1]);
  const double replicas = static_cast<double>(cuts.replicas);
  const double rounds = std::ceil(static_cast<double>(task.microbatches) / replicas);
  double best = infinite;
  for (int option = 0; option < 8; ++option) {
    const bool chosen = (option & 1) != 0, shard = (option & 2) != 0, offload = (option & 4) != 0;
    if ((chosen && !task.choose.recompute) || (shard && !task.choose.shard) ||
        (offload && !task.choose.offload))
      continue;
    const bool again = chosen || task.recompute;
    const double state = task.adam ? weights / (shard ? replicas : 1.0) : 0.0;
    const double memory =
        2.0 * weights + (offload ? 0.0 : state) + kept + earlier * (again ? in_bytes : kept);
    if (memory > task.memory * (1.0 + 1e-13)) continue;
    double load = in + forward + (again && !last ? std::max(forward, out) : out) + backward;
    if (shard && task.adam) load += 0.5 * sumTime(task, weights, cuts.replicas, each) / rounds;
    if (offload) load += 2.0 * state / task.host_bandwidth / rounds;
    best = std::min(best, load);
  }
  return best;
}

double timeOf(const PlacementTask& task, const LayerGraph& graph, const Cuts& cuts) {
  const std::int64_t each = replicasOfNode(task, graph, cuts);
  if (each == 0) return infinite;
  double slowest = 0.0, first = 0.0;
  for (std::size_t i = 0; i < cuts.first.size(); ++i)
    slowest = std::max(slowest, loadOf(task, graph, cuts, i, each));
  const std::size_t end = cuts.first.size() > 1 ? cuts.first[1] : graph.layers.size();
  for (std::size_t layer = 0; layer < end; ++layer) first += graph.layers[layer].parameter_bytes;
  const double rounds =
      std::ceil(static_cast<double>(task.microbatches) / static_cast<double>(cuts.replicas));
  return slowest * (rounds + static_cast<double>(cuts.first.size()) - 1.0) +
         sumTime(task, first, cuts.replicas, each);
}

double fastestOfAll(const PlacementTask& task) {
  double best = infinite;
  const std::int64_t most = std::min({task.devices, task.microbatches, task.most_replicas});
  for (const LayerGraph& graph : task.graphs) {
    for (unsigned mask = 0; mask < 1U << (graph.layers.size() - 1); ++mask) {
      Cuts cuts;
      cuts.first = {0};
      for (int i = 1; i < static_cast<int>(graph.layers.size()); ++i)
        if ((mask >> (i - 1) & 1U) != 0) cuts.first.push_back(i);
      for (unsigned open = 0; open < 1U << (cuts.first.size() - 1); ++open) {
        cuts.opens_node = {true};
        for (std::size_t i = 1; i < cuts.first.size(); ++i)
          cuts.opens_node.push_back((open >> (i - 1) & 1U) != 0);
        for (cuts.replicas = 1; cuts.replicas <= most; ++cuts.replicas)
          best = std::min(best, timeOf(task, graph, cuts));
      }
    }
  }
  return best;
}

void compareWithAll(std::uint64_t seed, int cases, bool nodes, bool options) {
  Random random(seed);
  int feasible = 0, chosen = 0, shared = 0;
  for (int i = 0; i < cases; ++i) {
    INFO("case " << i << " of seed " << seed);
    const bool branches = i % 2 == 0;
    const PlacementTask task = randomTaskWith(random, branches ? 5 : 6, branches, nodes, options);
    const DevicePlan plan = placeLayers(task);
    const DevicePlan tried = placeByBruteForce(task);
    const double best = branches ? (tried.feasible ? tried.time : infinite) : fastestOfAll(task);
    REQUIRE(plan.feasible == (best < infinite));
    REQUIRE(plan.feasible == tried.feasible);
    REQUIRE(plan.feasible == plan.limit.empty());
    if (!plan.feasible) continue;
    REQUIRE(plan.time == Approx(best).epsilon(1e-9));
    REQUIRE(tried.time == Approx(best).epsilon(1e-9));
    const std::optional<double> again = timeOfPlan(task, plan.graph, plan.stages, plan.replicas);
    REQUIRE(again.has_value());
    REQUIRE(*again == Approx(plan.time).epsilon(1e-12));
    ++feasible;
    for (const PlacedStage& stage : plan.stages) {
      chosen += stage.options.any() ? 1 : 0;
      shared += stage.opens_node ? 0 : 1;
    }
  }
  REQUIRE(feasible > cases / 4);
  REQUIRE(feasible < cases);
  REQUIRE((shared > cases / 10) == nodes);
  REQUIRE((!options || chosen > cases / 10));
}

/// 34 layers like those of a transformer on 1,024 devices.
PlacementTask longChain() {
  Random random(5);
  PlacementTask task;
  task.memory = 32.0;
  task.bandwidth = 4.0;
  task.devices = 1024;
  task.microbatches = 4096;
  task.adam = true;
  task.graphs.push_back(randomGraph(random, 34, 1, false));
  return task;
}

} // namespace

TEST_CASE("With nodes, plans are as fast as the best of all", "[plan][placement][sweep]") {
  compareWithAll(11, 250, true, false);
}

TEST_CASE("With options of stages, plans are as fast as the best of all", "[plan][placement][sweep]") {
  compareWithAll(12, 250, false, true);
}

TEST_CASE("With nodes and options, plans are as fast as the best of all", "[plan][placement][sweep]") {
  compareWithAll(13, 150, true, true);
}

TEST_CASE("A thousand plans with nodes are as fast as the best of all", "[.][placement_soak]") {
  compareWithAll(14, 1000, true, false);
}

TEST_CASE("A thousand plans with options are as fast as the best of all", "[.][placement_soak]") {
  compareWithAll(15, 1000, false, true);
}

TEST_CASE("A thousand plans with nodes and options are as fast as the best of all", "[.][placement_soak]") {
  compareWithAll(16, 1000, true, true);
}

TEST_CASE("Nodes of one device, and options without need, change nothing", "[plan][placement]") {
  Random random(17);
  for (int i = 0; i < 100; ++i) {
    INFO("case " << i);
    PlacementTask task = randomTask(random, 8, i % 2 == 0);
    const DevicePlan plan = placeLayers(task);
    task.node_bandwidth = 1e6 * task.bandwidth;
    task.host_bandwidth = 1e-6;
    REQUIRE(placeLayers(task).time == plan.time);
    if (!plan.feasible) continue;
    task.choose.offload = true; // at this speed it is of no use if the plan fits without it
    task.adam = true;
    PlacementTask without = task;
    without.choose = {};
    const DevicePlan other = placeLayers(without);
    if (other.feasible) REQUIRE(placeLayers(task).time == other.time);
  }
}

TEST_CASE("Faster links inside nodes, and more options, never hurt", "[plan][placement][sweep]") {
  Random random(18);
  for (int i = 0; i < 100; ++i) {
    INFO("case " << i);
    PlacementTask task = randomTaskWith(random, 6, i % 2 == 0, true, false);
    task.adam = true;
    task.recompute = false;
    task.host_bandwidth = task.bandwidth;
    const auto time = [&] {
      const DevicePlan plan = placeLayers(task);
      return plan.feasible ? plan.time : infinite;
    };
    double before = time();
    for (int step = 0; step < 4; ++step) {
      if (step == 0) task.node_bandwidth *= 2.0;
      if (step == 1) task.choose.recompute = true;
      if (step == 2) task.choose.shard = true;
      if (step == 3) task.choose.offload = true;
      const double now = time();
      REQUIRE(now <= before * (1.0 + 1e-12));
      before = now;
    }
  }
}

TEST_CASE("A stage of more devices than a node has gets whole nodes", "[plan][placement]") {
  PlacementTask task;
  task.memory = 100.0;
  task.bandwidth = 1.0;
  task.node_bandwidth = 10.0;
  task.node_devices = 2;
  task.devices = 6;
  task.microbatches = 4;
  task.graphs.push_back({4, {{0, 10, 1, 1, 1, true}, {1, 10, 1, 1, 1, false}}, {{0, 1, 5}}});
  // A stage on two nodes and one on the third, with 5 to send between nodes: 5 rounds of 2 + 5. Or one stage:
  // 4 rounds of 4.
  REQUIRE(placeLayers(task).time == Approx(16.0));
  REQUIRE(*timeOfPlan(task, 0, {{{0}, 4}, {{1}, 1}}, 1) == Approx(35.0));
  REQUIRE_FALSE(timeOfPlan(task, 0, {{{0}, 4}, {{1}, 1, false}}, 1));
  task.devices = 4;
  REQUIRE_FALSE(timeOfPlan(task, 0, {{{0}, 4}, {{1}, 1}}, 1));
}

TEST_CASE("What each option costs and saves", "[plan][placement]") {
  PlacementTask task;
  task.bandwidth = 10.0;
  task.host_bandwidth = 5.0;
  task.devices = 4;
  task.microbatches = 8;
  task.adam = true;
  task.graphs.push_back({1, {{0, 30, 20, 1.0, 2.0, false}}, {}});
  const auto time = [&](const StageOptions& options, std::int64_t replicas) {
    return timeOfPlan(task, 0, {{{0}, 1, true, options}}, replicas);
  };
  task.memory = 110.0; // three times 30, and 20
  REQUIRE(*time({}, 2) == Approx(3.0 * 4.0 + 4.0 * 0.5 * 30.0 / 10.0));
  task.memory = 109.0;
  REQUIRE_FALSE(time({}, 2));
  task.memory = 95.0; // half of the last 30; half a sum more, over four microbatches
  REQUIRE(*time({false, true, false}, 2) == Approx((3.0 + 3.0 / 4.0) * 4.0 + 6.0));
  task.memory = 94.0;
  REQUIRE_FALSE(time({false, true, false}, 2));
  task.memory = 80.0; // 30 out and in
  REQUIRE(*time({false, false, true}, 2) == Approx((3.0 + 12.0 / 4.0) * 4.0 + 6.0));
  REQUIRE(*time({false, true, true}, 2) == Approx((3.0 + 3.0 / 4.0 + 6.0 / 4.0) * 4.0 + 6.0));
  task.choose = {true, true, true};
  const DevicePlan plan = placeLayers(task);
  REQUIRE(plan.feasible);
  REQUIRE(plan.stages[0].options.offload);
  task.memory = 79.0;
  REQUIRE(placeLayers(task).limit == "tensor degree 1: layer 0 needs 80 bytes on a device of 79");
}

TEST_CASE("A fixed plan gets the best nodes and options", "[plan][placement]") {
  Random random(19);
  int compared = 0;
  for (int i = 0; i < 200; ++i) {
    INFO("case " << i);
    PlacementTask task = randomTaskWith(random, 6, i % 2 == 0, i % 4 < 2, true);
    const auto count = static_cast<std::int64_t>(task.graphs[0].layers.size());
    task.fixed = FixedPlan{1 + below(random, 4), task.graphs[0].tensor_degree, 1 + below(random, 3), count};
    const std::optional<double> fixed = timeOfFixedPlan(task);
    const DevicePlan plan = placeLayers(task);
    if (!fixed) continue;
    REQUIRE(plan.feasible);
    REQUIRE(plan.time <= *fixed * (1.0 + 1e-12));
    ++compared;
  }
  REQUIRE(compared > 20);
}

TEST_CASE("A thousand devices with nodes and options take seconds at most", "[plan][placement][speed]") {
  PlacementTask task = longChain();
  constexpr double limit_without = 0.5, limit_with = 30.0; // s; one takes a millisecond, the other a second
  DevicePlan both;
  const double without = computingTime(limit_without, [&] { placeLayers(task); });
  task.node_devices = 8;
  task.node_bandwidth = 40.0;
  task.host_bandwidth = 2.0;
  task.choose = {true, true, true};
  const double with = computingTime(limit_with, [&] { both = placeLayers(task); });
  CAPTURE(without, with);
  REQUIRE(both.feasible);
  REQUIRE(without < limit_without);
  REQUIRE(with < limit_with);
}

} // namespace partita::test::plan_placement_options
