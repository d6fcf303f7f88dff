#include "partita/plan/placement/read_tasks.hpp"

#include "partita/plan/placement/graph_reader.hpp"

#include <algorithm>

namespace partita {

namespace {

using detail::JsonValue;
using detail::NodeNames;

constexpr double largest = 1e18; // sums and quotients stay finite
constexpr std::int64_t largest_core_count = 1 << 24, most_devices = 1 << 30;
constexpr std::size_t most_operators = 4096, most_graph_layers = 1024, most_edges = 1 << 20;

std::vector<std::pair<int, int>> readPairs(const JsonValue& list, const NodeNames& names) {
  std::vector<std::pair<int, int>> edges;
  for (const JsonValue& edge : list.items(most_edges)) {
    const std::vector<JsonValue> ends = edge.items(2);
    if (ends.size() != 2) edge.fail("must be a list of two ids");
    edges.emplace_back(names.find(ends[0]), names.find(ends[1]));
  }
  return edges;
}

LayerGraph readGraph(const JsonValue& nodes, const JsonValue& edges, std::int64_t degree) {
  LayerGraph graph;
  graph.tensor_degree = static_cast<int>(degree);
  NodeNames names;
  for (const JsonValue& node : nodes.items(most_graph_layers)) {
    PlacedLayer layer;
    layer.id = names.add(node);
    layer.parameter_bytes = node.at("parameterSize").number(0, largest);
    layer.activation_bytes = node.at("activationSize").number(0, largest);
    layer.forward = node.at("optimalLatencyFw").number(0, largest);
    layer.backward = node.at("optimalLatencyBw").number(0, largest);
    layer.tensor_parallel = node.at("isTensorParallelized").boolean();
    graph.layers.push_back(layer);
  }
  if (graph.layers.empty()) nodes.fail("has no layer");
  std::vector<std::pair<int, int>> pairs;
  for (const JsonValue& edge : edges.items(most_edges)) {
    const int from = names.find(edge.at("sourceId")), to = names.find(edge.at("destId"));
    graph.edges.push_back({from, to, edge.at("communicationCost").number(0, largest)});
    pairs.emplace_back(from, to);
  }
  names.requireNoCycle(edges, pairs);
  return graph;
}

/// The tensor degrees of the graphs, in ascending order.
std::vector<std::int64_t> readDegrees(const JsonValue& nodes) {
  constexpr std::size_t most_digits = 7;
  std::vector<std::int64_t> degrees;
  for (const std::string& name : nodes.keys()) {
    const bool number = !name.empty() && name.size() <= most_digits && name.front() != '0' &&
                        name.find_first_not_of("0123456789") == std::string::npos;
    if (!number) nodes.fail("'" + name + "' is not a degree of tensor parallelism such as '4'");
    degrees.push_back(std::stoll(name));
  }
  if (degrees.empty()) nodes.fail("has no degree of tensor parallelism");
  std::sort(degrees.begin(), degrees.end());
  return degrees;
}

std::optional<FixedPlan> readFixedPlan(const JsonValue& file) {
  const std::vector<std::string> keys = {"fixedPP", "fixedTMPC", "fixedDP", "numTransformerLayers"};
  if (std::none_of(keys.begin(), keys.end(), [&](const std::string& key) { return file.has(key); }))
    return {};
  const auto read = [&](std::size_t key) { return file.at(keys[key]).integer(1, most_devices); };
  return FixedPlan{read(0), read(1), read(2), read(3)};
}

/// Otherwise the plan would seem not to fit.
void checkFixedPlan(const JsonValue& file, const PlacementTask& task) {
  if (!task.fixed) return;
  const FixedPlan& fixed = *task.fixed;
  const bool known = std::any_of(task.graphs.begin(), task.graphs.end(), [&](const LayerGraph& graph) {
    return graph.tensor_degree == fixed.tensor_degree;
  });
  if (!known) file.at("fixedTMPC").fail("is not one of the degrees in nodes");
  if (fixed.transformer_layers < fixed.stages)
    file.at("numTransformerLayers").fail("must be at least fixedPP, " + std::to_string(fixed.stages));
}

/// Devices per node, bandwidths and choices of stages. All keys are optional.
void readNodes(const JsonValue& file, PlacementTask& task) {
  if (file.has("devicesPerNode")) {
    task.node_devices = file.at("devicesPerNode").integer(1, most_devices);
    if (task.devices % task.node_devices != 0)
      file.at("devicesPerNode").fail("must divide maxDevices, " + std::to_string(task.devices));
  }
  if (task.node_devices == 1 && file.has("bandwidthInNode"))
    file.at("bandwidthInNode").fail("has no effect unless devicesPerNode is more than 1");
  if (task.node_devices > 1) task.node_bandwidth = file.at("bandwidthInNode").number(task.bandwidth, largest);
  const auto flag = [&](const char* key) { return file.has(key) && file.at(key).boolean(); };
  task.choose = {flag("chooseRecomputation"), flag("chooseShardedOptimizer"), flag("chooseOffload")};
  if (task.choose.recompute && task.recompute)
    file.at("chooseRecomputation").fail("has no effect where activationRecomputation is true");
  for (const char* const key : {"chooseShardedOptimizer", "chooseOffload"})
    if (flag(key) && !task.adam) file.at(key).fail("has no effect unless optimizerAlgorithm is Adam");
  if (task.choose.offload || file.has("hostBandwidth"))
    task.host_bandwidth = file.at("hostBandwidth").number(1, largest);
}

} // namespace

ScheduleTask readScheduleTask(const std::string& path) {
  const JsonValue file = JsonValue::read(path);
  ScheduleTask task;
  task.tensor_cores = static_cast<int>(file.at("num_tc").integer(1, largest_core_count));
  task.vector_cores = static_cast<int>(file.at("num_vc").integer(1, largest_core_count));
  NodeNames names;
  for (const JsonValue& op : file.at("ops").items(most_operators)) {
    Operator read;
    read.id = names.add(op);
    read.type = static_cast<CoreType>(op.at("core_type").choice({"TC", "VC", "TCandVC"}));
    read.latency = op.at("latency").number(0, largest);
    read.intra_op_latency = op.at("intra_op_latency").number(0, largest);
    task.operators.push_back(read);
  }
  if (task.operators.empty()) file.at("ops").fail("has no operator");
  task.edges = readPairs(file.at("edges"), names);
  names.requireNoCycle(file.at("edges"), task.edges);
  return task;
}

PlacementTask readPlacementTask(const std::string& path) {
  const JsonValue file = JsonValue::read(path);
  PlacementTask task;
  task.memory = file.at("maxMemoryPerDevice").number(0, largest);
  task.devices = file.at("maxDevices").integer(1, most_devices);
  task.bandwidth = file.at("bandwidth").number(1, largest);
  task.microbatches = file.at("mbsInBatch").integer(1, most_devices);
  task.recompute = file.at("activationRecomputation").boolean();
  task.adam = file.at("optimizerAlgorithm").choice({"SGD", "Adam"}) == 1;
  readNodes(file, task);
  task.fixed = readFixedPlan(file);
  const JsonValue nodes = file.at("nodes"), edges = file.at("edges");
  for (const std::int64_t degree : readDegrees(nodes)) {
    const std::string name = std::to_string(degree);
    task.graphs.push_back(readGraph(nodes.at(name), edges.at(name), degree));
  }
  checkFixedPlan(file, task);
  return task;
}

} // namespace partita
