#include "partita/config/deck.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/schedule/bit_set.hpp"
#include "partita/plan/search/network_graph.hpp"
#include "partita/plan/search/search_spec.hpp"
#include "partita/plan/search/transformer.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <tuple>

#include "support/catch.hpp"
#include "support/source_directory.hpp"

namespace partita::test::plan_search {

namespace {

Transformer llama2() {
  return loadTransformer(sourceDirectory() + "/models/llama2-7b.toml");
}

/// Kind and size of an operator, and an operator that precedes another.
using Label = std::pair<int, double>;
using Precedence = std::pair<Label, Label>;

/// How often an operator of one label precedes, directly or not, one of another label.
std::map<Precedence, int> closureOf(const std::vector<Label>& labels,
                                    const std::vector<std::pair<int, int>>& edges) {
  std::vector<std::vector<int>> after(labels.size());
  for (const auto& [from, to] : edges) after[from].push_back(to);
  std::map<Precedence, int> counts;
  for (std::size_t start = 0; start < labels.size(); ++start) {
    BitSet seen(labels.size());
    std::vector<int> open{static_cast<int>(start)};
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      for (const int next : after[at]) {
        if (seen.has(next)) continue;
        seen.add(next);
        open.push_back(next);
        if (labels[start].second > 1.0 && labels[next].second > 1.0 && labels[start].first >= 0 &&
            labels[next].first >= 0)
          ++counts[{labels[start], labels[next]}];
      }
    }
  }
  return counts;
}

/// Kind, size, and size of the second operand of an operator.
using Operands = std::tuple<int, double, double>;

struct Block {
  std::map<Precedence, int> order;
  std::multiset<Operands> operands; ///< but of products
};

/// A block of the published graph of Llama 2: the operators of its first layer without the final norm and the
/// head, and with the first norm, which the file counts to the embedding. Other nodes have the label -1.
Block publishedBlock(const std::string& path) {
  static const std::map<std::string, OperatorKind> kinds = {
      {"Linear", OperatorKind::product},  {"matmul", OperatorKind::product},
      {"add", OperatorKind::add},         {"mul", OperatorKind::multiply},
      {"neg", OperatorKind::add},         {"truediv", OperatorKind::divide},
      {"pow", OperatorKind::power},       {"rsqrt", OperatorKind::power},
      {"mean", OperatorKind::mean},       {"softmax", OperatorKind::softmax},
      {"dropout", OperatorKind::dropout}, {"SiLU", OperatorKind::exponential}};
  const nlohmann::json file = nlohmann::json::parse(std::ifstream(path));
  std::map<int, int> position;
  std::vector<Label> labels;
  for (const nlohmann::json& node : file["nodes"]) {
    const int id = node["node_id"], layer = node["layer_id"];
    const bool inside = (layer == 0 && id < 144) || (id >= 49 && id <= 53);
    double size = 1.0;
    for (const nlohmann::json& extent : node["activation_shape"][0]) size *= extent.get<double>();
    const auto kind = kinds.find(node["op"]);
    position[id] = static_cast<int>(labels.size());
    labels.emplace_back(inside && kind != kinds.end() ? static_cast<int>(kind->second) : -1, size);
  }
  std::vector<std::pair<int, int>> edges;
  std::vector<std::vector<double>> inputs(labels.size());
  for (const nlohmann::json& edge : file["edges"]) {
    edges.emplace_back(position[edge["src"]], position[edge["dst"]]);
    inputs[edges.back().second].push_back(labels[edges.back().first].second);
  }
  Block block{closureOf(labels, edges), {}};
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i].first > static_cast<int>(OperatorKind::product) && labels[i].second > 1.0)
      block.operands.emplace(labels[i].first, labels[i].second,
                             inputs[i].size() == 2 ? std::min(inputs[i][0], inputs[i][1]) : 0.0);
  return block;
}

Block blockOf(const OperatorGraph& graph) {
  std::vector<Label> labels;
  Block block;
  for (const GraphOperator& op : graph.operators) {
    labels.emplace_back(static_cast<int>(op.kind), op.elements);
    if (op.kind != OperatorKind::product)
      block.operands.emplace(static_cast<int>(op.kind), op.elements, op.second);
  }
  block.order = closureOf(labels, graph.edges);
  return block;
}

double sumOf(const OperatorGraph& graph, double GraphOperator::*field) {
  double sum = 0.0;
  for (const GraphOperator& op : graph.operators) sum += op.*field;
  return sum;
}

SearchModel modelOf(const Transformer& model) {
  SearchModel search;
  search.name = model.name;
  search.chains = [model](std::int64_t microbatch) {
    std::vector<ModelChain> chains;
    for (int parts = 1; parts <= 4; parts *= 2) chains.push_back(chainOf(model, parts, microbatch));
    return chains;
  };
  search.expert = FixedPlan{2, 2, 4, model.layers};
  return search;
}

Transformer smallModel() {
  Transformer model;
  model.name = "small";
  model.layers = 4;
  model.width = 256;
  model.heads = 4;
  model.feed_forward = 1024;
  model.vocabulary = 1000;
  model.sequence = 128;
  return model;
}

GraphOperator square(double size) {
  return GraphOperator::product("square", 1.0, size, size, size);
}

} // namespace

TEST_CASE("A block of Llama 2 has the parameters and operators of the published graph", "[plan][search]") {
  const ModelChain chain = chainOf(llama2(), 1, 1);
  REQUIRE(chain.chain.size() == 34);
  REQUIRE(chain.layers[0].parameters == 131072000.0);
  REQUIRE(chain.layers[1].parameters == 202383360.0);
  REQUIRE(chain.layers[2].parameters == 131076096.0);
  REQUIRE(chain.layers[1].output == 16777216.0);
  REQUIRE(chain.layers[1].graph.operators.size() == 37);

  const char* const root = std::getenv("PARTITA_DATA");
  const std::string folder = std::string(root == nullptr ? "" : root) + "/phaze/llama2_hml/";
  for (const int microbatch : {1, 8}) {
    const std::string path = folder + "llama2_mbs_" + std::to_string(microbatch) + "_sl_4096_opgraph.json";
    if (!std::ifstream(path)) {
      WARN("skipped: PARTITA_DATA holds no folder phaze/llama2_hml");
      return;
    }
    const Block block = blockOf(chainOf(llama2(), 1, microbatch).layers[1].graph);
    const Block published = publishedBlock(path);
    REQUIRE(block.order == published.order);
    REQUIRE(block.operands == published.operands);
  }
}

TEST_CASE("All model files can be read and built", "[plan][search]") {
  for (const char* const name :
       {"bert-large", "megatron-bert", "gpt2-xl", "megatron-gpt2-xl", "megatron-gpt2-54", "megatron-gpt2-72",
        "megatron-gpt3", "opt-350m", "llama2-7b"}) {
    INFO(name);
    const Transformer model = loadTransformer(sourceDirectory() + "/models/" + name + ".toml");
    REQUIRE(divides(model, model.expert_parts));
    const ModelChain chain = chainOf(model, static_cast<int>(model.least_parts), 1);
    REQUIRE(chain.chain.size() == static_cast<std::size_t>(model.layers) + 2);
  }
  // About the sizes that the names say.
  const auto parameters = [](const std::string& name) {
    const ModelChain chain = chainOf(loadTransformer(sourceDirectory() + "/models/" + name), 1, 1);
    double sum = 0.0;
    for (std::size_t i = 0; i + 1 < chain.chain.size(); ++i) sum += chain.layers[chain.chain[i]].parameters;
    return sum;
  };
  REQUIRE(parameters("megatron-gpt3.toml") == Approx(175e9).epsilon(0.01));
  REQUIRE(parameters("megatron-gpt2-72.toml") == Approx(8.3e9).epsilon(0.01));
  REQUIRE(parameters("megatron-gpt2-54.toml") == Approx(2.5e9).epsilon(0.02));
  REQUIRE(parameters("gpt2-xl.toml") == Approx(1.558e9).epsilon(0.001));
  REQUIRE(parameters("bert-large.toml") == Approx(335e6).epsilon(0.01));
}

TEST_CASE("Devices that share a layer have equal parts of its products", "[plan][search]") {
  const Transformer model = smallModel();
  const ModelChain whole = chainOf(model, 1, 2), half = chainOf(model, 2, 2);
  for (std::size_t i = 0; i < 3; ++i) {
    INFO(whole.layers[i].name);
    REQUIRE(half.layers[i].macs() == whole.layers[i].macs() / 2.0);
    REQUIRE(half.layers[i].tensor_parallel);
    REQUIRE_FALSE(whole.layers[i].tensor_parallel);
    REQUIRE(half.layers[i].parameters < 0.51 * whole.layers[i].parameters + 1000.0 * 256.0);
    const double summed = sumOf(half.layers[i].graph, &GraphOperator::values);
    REQUIRE(sumOf(whole.layers[i].graph, &GraphOperator::values) == 0.0);
    REQUIRE(summed > 0.0);
    REQUIRE(half.layers[i].activations ==
            sumOf(half.layers[i].graph, &GraphOperator::elements) + summed); // sums are kept, too
  }
  // Two sums per pass of a block, of all its values.
  REQUIRE(sumOf(half.layers[1].graph, &GraphOperator::values) == 4.0 * 2.0 * 128.0 * 256.0);
}

TEST_CASE("The layers of a deck become operators", "[plan][search]") {
  const RunConfig deck = effective(loadDeck(sourceDirectory() + "/input-decks/resnet-emnist.toml", {}));
  const std::vector<LayerPlan> layers = planNetwork(deck.network, {1, 28, 28}, 47);
  const ModelChain chain = chainOf(layers, 3);
  REQUIRE(chain.layers.size() == layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    INFO(layers[i].name());
    REQUIRE(2.0 * chain.layers[i].macs() == Approx(3.0 * layers[i].forwardFlops()).epsilon(1e-12));
    REQUIRE(chain.layers[i].parameters == static_cast<double>(layers[i].parameters()));
    for (const auto& [from, to] : chain.layers[i].graph.edges) REQUIRE(from < to);
  }
}

TEST_CASE("A layer that is tied to the embedding has a copy of its table", "[plan][search]") {
  const RunConfig deck = effective(loadDeck(sourceDirectory() + "/input-decks/gpt2-small.toml", {}));
  const std::vector<LayerPlan> layers = planNetwork(deck.network, {1024}, 50257);
  const ModelChain chain = chainOf(layers, 1);
  REQUIRE(layers.back().parameters() == 0);
  REQUIRE(chain.layers.back().parameters == 50257.0 * 768.0);
  double sum = 0.0;
  for (const GraphLayer& layer : chain.layers) sum += layer.parameters;
  REQUIRE(sum == 124439808.0 + 50257.0 * 768.0);
}

TEST_CASE("Pooling works on all places of its windows, but keeps one value of each", "[plan][search]") {
  const RunConfig deck =
      parseDeck("[network]\nlayers = [{type = \"max-pool\", kernel = 3, stride = 3}, {type = "
                "\"dense\"}]\n",
                "deck");
  const ModelChain chain = chainOf(planNetwork(deck.network, {8, 9, 9}, 10), 2);
  const GraphLayer& pooling = chain.layers.front();
  CHECK(pooling.activations == 2 * 8 * 3 * 3);
  const Accelerator accelerator = referenceAccelerator();
  const LatencyOptions options;
  LatencyEstimator estimator(accelerator, options, 1e9, 1);
  GraphOperator narrow = pooling.graph.operators.front();
  narrow.taps = 1.0;
  narrow.elements *= 9.0;
  CHECK(estimator.seconds(pooling.graph.operators.front(), Direction::forward, true) ==
        estimator.seconds(narrow, Direction::forward, true));
}

TEST_CASE("An operator absorbs its only successor if the kinds match", "[plan][search]") {
  GraphLayer layer;
  const auto add = [&](OperatorKind kind, const std::vector<int>& inputs) {
    return layer.add(GraphOperator::vector("", kind, 8.0), inputs);
  };
  const int first = layer.add(square(8), {});
  const int added = add(OperatorKind::add, {first});
  const int norm = add(OperatorKind::norm, {added});
  const int left = layer.add(square(8), {norm}), right = add(OperatorKind::tanh, {norm});
  const int sum = add(OperatorKind::add, {left, right}); // has another predecessor
  const FusedGraph fused = fusedGraph(layer.graph, true);
  REQUIRE(fused.members == std::vector<std::vector<int>>{{first, added, norm}, {left}, {right}, {sum}});
  REQUIRE(fused.edges == std::vector<std::pair<int, int>>{{0, 1}, {0, 2}, {1, 3}, {2, 3}});
  REQUIRE(fusedGraph(layer.graph, false).members.size() == 6);

  // Two products are never one, and a value that two need stays apart.
  GraphLayer two;
  const int a = two.add(square(8), {});
  two.add(square(8), {a});
  two.add(square(8), {a});
  REQUIRE(fusedGraph(two.graph, true).members.size() == 3);

  const auto together = [](const GraphOperator& before, OperatorKind kind) {
    GraphLayer pair;
    pair.add(GraphOperator::vector("", kind, 8.0), {pair.add(before, {})});
    return fusedGraph(pair.graph, true).members.size() == 1;
  };
  const std::vector<OperatorKind> element_wise{OperatorKind::add, OperatorKind::multiply,
                                               OperatorKind::divide, OperatorKind::power},
      activations{OperatorKind::gelu, OperatorKind::exponential, OperatorKind::tanh,
                  OperatorKind::sine, OperatorKind::relu,        OperatorKind::norm},
      others{OperatorKind::move, OperatorKind::softmax, OperatorKind::all_reduce};
  const auto count = [&](const GraphOperator& before, const std::vector<OperatorKind>& kinds) {
    return std::count_if(kinds.begin(), kinds.end(),
                         [&](OperatorKind kind) { return together(before, kind); });
  };
  for (const OperatorKind kind : element_wise) {
    const GraphOperator op = GraphOperator::vector("", kind, 8.0);
    CHECK(count(op, element_wise) == 4);
    CHECK(count(op, {OperatorKind::dropout, OperatorKind::mean}) == 2);
    CHECK(count(op, activations) == 0);
    CHECK(count(op, others) == 0);
  }
  CHECK(count(square(8), element_wise) == 4);
  CHECK(count(square(8), activations) == 6);
  CHECK(together(square(8), OperatorKind::dropout));
  CHECK_FALSE(together(square(8), OperatorKind::mean));
  CHECK(count(square(8), others) == 0);
  for (const std::vector<OperatorKind>& kinds : {activations, others})
    for (const OperatorKind kind : kinds)
      CHECK(count(GraphOperator::vector("", kind, 8.0), element_wise) == 0);
  GraphOperator pooling = GraphOperator::vector("", OperatorKind::add, 8.0);
  pooling.taps = 4.0;
  CHECK(count(pooling, element_wise) == 0);
}

TEST_CASE("The two products of a gated feed-forward part stay independent", "[plan][search]") {
  Transformer model = smallModel();
  model.gated = true;
  model.activation = TransformerActivation::silu;
  const OperatorGraph graph = chainOf(model, 1, 1).layers[1].graph;
  const FusedGraph fused = fusedGraph(graph, true);
  std::map<std::string, int> place; // of the set that an operator is in
  for (std::size_t i = 0; i < fused.members.size(); ++i)
    for (const int op : fused.members[i]) place[graph.operators[op].name] = static_cast<int>(i);
  CHECK(fused.members[place["up"]].size() == 2); // with the activation
  CHECK(place["activation"] == place["up"]);
  CHECK(fused.members[place["gate"]].size() == 1);
  CHECK(fused.members[place["gated"]].size() == 1);
  CHECK(place["dropout2"] == place["down"]);
  CHECK(place["sum2"] != place["down"]); // it adds the input of the part
  const std::set<std::pair<int, int>> edges(fused.edges.begin(), fused.edges.end());
  CHECK(edges.count({place["up"], place["gated"]}) == 1);
  CHECK(edges.count({place["gate"], place["gated"]}) == 1);
  CHECK(edges.count({place["up"], place["gate"]}) + edges.count({place["gate"], place["up"]}) == 0);
}

TEST_CASE("Fused operators wait for nothing that they did not wait for", "[plan][search]") {
  std::mt19937_64 random(3);
  std::size_t sets = 0;
  for (int i = 0; i < 100; ++i) {
    GraphLayer layer;
    std::vector<Label> names; // operators have different ones
    for (int op = 0; op < 12; ++op) {
      std::vector<int> inputs;
      for (int other = 0; other < op; ++other)
        if (random() % 6 == 0) inputs.push_back(other);
      if (random() % 3 == 0)
        layer.add(square(4), inputs);
      else
        layer.add(GraphOperator::vector("", OperatorKind::add, 4.0), inputs);
      names.emplace_back(op, 2.0);
    }
    const FusedGraph fused = fusedGraph(layer.graph, true);
    sets += fused.members.size();
    std::vector<std::pair<int, int>> edges;
    std::size_t members = 0;
    for (const std::vector<int>& set : fused.members) {
      members += set.size();
      REQUIRE(std::count_if(set.begin(), set.end(), [&](int op) {
                return layer.graph.operators[op].kind == OperatorKind::product;
              }) <= 1);
      for (std::size_t k = 1; k < set.size(); ++k) edges.emplace_back(set[k - 1], set[k]);
    }
    REQUIRE(members == 12);
    for (const auto& [from, to] : fused.edges) {
      REQUIRE(from < to);
      edges.emplace_back(fused.members[from].back(), fused.members[to].front());
    }
    REQUIRE(closureOf(names, edges) == closureOf(names, layer.graph.edges));
  }
  REQUIRE(sets < 1150); // of 1200 operators
}

TEST_CASE("Products take at least as long as their arithmetic and their values", "[plan][search]") {
  const Accelerator reference = referenceAccelerator();
  const double elements = 128.0 * 128.0;
  REQUIRE(productCycles(reference, square(4096), false) == 4096.0 * 4096.0 * 4096.0 / elements);
  REQUIRE(productCycles(reference, square(4096), true) == 4096.0 * 4096.0 * 4096.0 / elements / 8.0);
  // One row: the weights have to be read, 128 values per cycle.
  const GraphOperator thin = GraphOperator::product("thin", 1.0, 1.0, 4096.0, 4096.0);
  REQUIRE(productCycles(reference, thin, false) >= 4096.0 * 4096.0 / 128.0);
  REQUIRE(productCycles(reference, thin, false) < 1.01 * 4096.0 * 4097.0 / 64.0);

  std::mt19937_64 random(9);
  const std::vector<Accelerator> space = acceleratorSpace();
  for (int i = 0; i < 300; ++i) {
    Accelerator one = space[random() % space.size()];
    const auto extent = [&] { return static_cast<double>(1 + random() % 3000); };
    const GraphOperator op = GraphOperator::product("", 1.0 + random() % 5, extent(), extent(), extent());
    const double macs = op.batch * op.rows * op.inner * op.columns;
    const double values = op.batch * std::max((op.rows + op.columns) * op.inner, op.rows * op.columns);
    const double alone = productCycles(one, op, false), together = productCycles(one, op, true);
    INFO(one.tensor_cores << " x " << one.width << " x " << one.depth << ": " << op.rows << " " << op.inner
                          << " " << op.columns);
    REQUIRE(alone >= macs / (one.width * one.depth));
    REQUIRE(together >= macs / (one.width * one.depth) / one.tensor_cores);
    REQUIRE(std::min(alone, together) >= values / 128.0);
    if (one.buffer_mib < 128) {
      one.buffer_mib *= 2;
      REQUIRE(productCycles(one, op, false) <= alone);
      REQUIRE(productCycles(one, op, true) <= together);
    }
  }
}

TEST_CASE("Times of operators follow the options", "[plan][search]") {
  const Accelerator reference = referenceAccelerator();
  LatencyOptions options;
  options.frequency = 1.0; // cycles
  const auto seconds = [&](const GraphOperator& op, Direction pass, bool all_cores) {
    return LatencyEstimator(reference, options, 1e9, 4).seconds(op, pass, all_cores);
  };
  const GraphOperator product = square(4096);
  REQUIRE(seconds(product, Direction::backward, false) == 2.0 * seconds(product, Direction::forward, false));
  options.weight_gradients = false;
  REQUIRE(seconds(product, Direction::backward, false) == seconds(product, Direction::forward, false));

  GraphOperator softmax = GraphOperator::vector("softmax", OperatorKind::softmax, 1000.0 * 512.0);
  softmax.row = 512.0;
  REQUIRE(seconds(softmax, Direction::forward, false) == 10.0 * 4000.0 + 1000.0 * 4.0 + 10.0);
  REQUIRE(seconds(softmax, Direction::forward, true) == 10.0 * 2000.0 + 1000.0 * 2.0 + 10.0);
  REQUIRE(seconds(softmax, Direction::backward, false) == 2.0 * 4000.0);
  GraphOperator mean = GraphOperator::vector("mean", OperatorKind::mean, 1000.0);
  mean.row = 512.0;
  REQUIRE(seconds(mean, Direction::forward, false) == 1000.0 * (4.0 + 10.0));
  REQUIRE(seconds(mean, Direction::forward, true) == 1000.0 * (2.0 + 10.0));
  GraphOperator product_of_two = GraphOperator::vector("multiply", OperatorKind::multiply, 512.0 * 1280.0);
  REQUIRE(seconds(product_of_two, Direction::backward, false) == 5120.0); // by a constant
  product_of_two.second = 1280.0;                                         // once for all rows
  REQUIRE(seconds(product_of_two, Direction::forward, false) == 5120.0);
  REQUIRE(seconds(product_of_two, Direction::backward, false) == 5120.0 + 10.0);
  REQUIRE(seconds(product_of_two, Direction::backward, true) == 2560.0 + 5.0);
  product_of_two.second = product_of_two.elements;
  REQUIRE(seconds(product_of_two, Direction::backward, false) == 2.0 * 5120.0);
  const GraphOperator sine = GraphOperator::vector("sine", OperatorKind::sine, 1280.0);
  REQUIRE(seconds(sine, Direction::forward, false) == 13.0 * 10.0);
  REQUIRE(seconds(sine, Direction::backward, false) == 2.0 * 10.0);
  const GraphOperator move = GraphOperator::vector("lookup", OperatorKind::move, 1280.0);
  REQUIRE(seconds(move, Direction::forward, false) == 10.0);
  options.moves = false;
  REQUIRE(seconds(move, Direction::forward, false) == 0.0);

  GraphOperator sum;
  sum.kind = OperatorKind::all_reduce;
  sum.values = 2e9;
  REQUIRE(seconds(sum, Direction::forward, true) == 2.0 * 3.0 / 4.0 * 4.0);
  REQUIRE(seconds(sum, Direction::backward, true) == 0.0);

  GraphLayer layer;
  int last = layer.add(product, {});
  for (int i = 0; i < 2; ++i) last = layer.add(GraphOperator::vector("", OperatorKind::add, 1280.0), {last});
  const auto latency = [&] {
    const ScheduleTask task =
        LatencyEstimator(reference, options, 1e9, 1).task(layer.graph, Direction::forward);
    REQUIRE(task.operators.size() == 1);
    REQUIRE(task.operators[0].type == CoreType::both);
    return task.operators[0].latency;
  };
  const double arithmetic = seconds(product, Direction::forward, false);
  REQUIRE(latency() == arithmetic + 20.0);
  options.each_fused = false;
  REQUIRE(latency() == arithmetic + 10.0);
  options.fuse = false;
  const ScheduleTask task =
      LatencyEstimator(reference, options, 1e9, 1).task(layer.graph, Direction::backward);
  REQUIRE(task.operators.size() == 3);
  REQUIRE(task.edges == std::vector<std::pair<int, int>>{{1, 0}, {2, 1}});
  options.peak = true;
  REQUIRE(seconds(product, Direction::forward, true) == 4096.0 * 4096.0 * 4096.0 / (128.0 * 128.0) / 8.0);
}

TEST_CASE("Operators without duration keep the order of those around them", "[plan][search]") {
  LatencyOptions options;
  options.fuse = false;
  GraphLayer layer;
  const int first = layer.add(square(8), {});
  GraphOperator copy;
  copy.kind = OperatorKind::all_reduce; // of the backward pass
  copy.backward_only = true;
  const int middle = layer.add(copy, {first});
  layer.add(square(16), {middle});
  const ScheduleTask task =
      LatencyEstimator(referenceAccelerator(), options, 1e9, 1).task(layer.graph, Direction::forward);
  REQUIRE(task.operators.size() == 2);
  REQUIRE(task.edges == std::vector<std::pair<int, int>>{{0, 1}});
}

TEST_CASE("A search answers each accelerator alone, and none worse than the expert", "[plan][search]") {
  SearchTask task;
  const std::vector<Accelerator> space = acceleratorSpace();
  for (std::size_t i = 0; i < space.size(); i += 997) task.accelerators.push_back(space[i]);
  task.cases = {{1, 1e9, false}, {2, 1e9, true}, {1, 1e3, false}};
  task.models = {modelOf(smallModel())};
  task.devices = 16;
  task.batch = 64;
  ArchitectureSearch forward(task), backward(task);
  std::vector<SearchRow> rows(task.accelerators.size());
  for (std::size_t i = rows.size(); i-- > 0;) rows[i] = backward.price(i);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    INFO("accelerator " << i);
    const SearchRow row = forward.price(i);
    REQUIRE(row.size() == 3);
    for (std::size_t answer = 0; answer < 3; ++answer) {
      std::array<double, SearchAnswer::numbers> a{}, b{}, c{};
      row[answer].write(a.data());
      rows[i][answer].write(b.data());
      SearchAnswer::read(a.data()).write(c.data());
      REQUIRE(a == b);
      REQUIRE(a == c);
    }
    REQUIRE_FALSE(row[2].feasible);
    for (std::size_t answer = 0; answer < 2; ++answer) {
      REQUIRE(row[answer].feasible);
      REQUIRE(row[answer].lower_bound > 0.0);
      REQUIRE(row[answer].lower_bound <= row[answer].time);
      REQUIRE(row[answer].expert_time > 0.0);
      REQUIRE(row[answer].time <= row[answer].expert_time);
      REQUIRE(row[answer].utilisation > 0.0);
      REQUIRE(row[answer].utilisation <= 1.0);
    }
    const ArchitectureSearch::Plan plan = forward.planOf(i, 0);
    REQUIRE(plan.plan.time == row[0].time);
    REQUIRE(forward.planOf(i, 2).limit == "memory");
  }
}

TEST_CASE("Sums over devices that share layers have the width of values, and may be the limit",
          "[plan][search]") {
  SearchTask task;
  task.accelerators = {acceleratorSpace().front()};
  task.cases = {{1, 1e12, false}};
  task.models = {modelOf(smallModel())};
  const auto chains = task.models[0].chains;
  task.models[0].chains =
      [chains](std::int64_t microbatch) { // only the one in which most devices share layers
        std::vector<ModelChain> all = chains(microbatch);
        return std::vector<ModelChain>{all.back()};
      };
  task.devices = task.node_devices = task.models[0].chains(1)[0].tensor_degree;
  REQUIRE(task.devices > 1);
  task.batch = 4;
  task.bandwidth = task.node_bandwidth = 1e3;
  const auto solve = [&] { return ArchitectureSearch(task).planOf(0, 0); };
  const ArchitectureSearch::Plan plan = solve();
  CHECK(plan.limit == "bandwidth");
  task.latency.bytes_per_value = 4.0;
  const double ratio = solve().plan.time / plan.plan.time;
  CHECK(ratio > 1.9);
  CHECK(ratio < 2.1);
}

TEST_CASE("Nodes and choices of stages help in a search, and change nothing by default", "[plan][search]") {
  const std::string model = "[[model]]\nfile = \"a.toml\"\n", few = "[architectures]\nevery = 5000\n";
  const auto rowsOf = [&](const std::string& lines) {
    SearchTask task = parseSearchSpec(model + few + lines, "spec").task();
    task.models = {modelOf(smallModel())};
    ArchitectureSearch search(task);
    std::vector<SearchRow> rows;
    for (std::size_t i = 0; i < task.accelerators.size(); ++i) rows.push_back(search.price(i));
    return rows;
  };
  const std::string search = "[search]\ndevices = 16\nbatch = 64\nadam = true\n",
                    nodes = "node_devices = 4\nnode_bandwidth = 1e12\nhost_bandwidth = 1e9\n",
                    tight = "[[case]]\nmemory = 8e6\n",
                    choose = "choose_recompute = true\nchoose_shard = true\nchoose_offload = true\n";
  const std::vector<SearchRow> plain = rowsOf(search + tight),
                               same = rowsOf(search + "node_devices = 1\n" + tight),
                               near = rowsOf(search + nodes + tight),
                               chosen = rowsOf(search + nodes + tight + choose);
  int faster = 0, gained = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    INFO("accelerator " << i);
    REQUIRE(same[i][0].time == plain[i][0].time);
    REQUIRE(same[i][0].lower_bound == plain[i][0].lower_bound);
    REQUIRE(chosen[i][0].feasible);
    if (near[i][0].feasible) REQUIRE(chosen[i][0].time <= near[i][0].time);
    REQUIRE(chosen[i][0].lower_bound <= chosen[i][0].time);
    faster += near[i][0].feasible && near[i][0].time < plain[i][0].time ? 1 : 0;
    gained += !near[i][0].feasible || chosen[i][0].time < near[i][0].time ? 1 : 0;
  }
  REQUIRE(faster > 0);
  REQUIRE(gained > 0);
}

TEST_CASE("A specification chooses accelerators, and the reference is always among them", "[plan][search]") {
  const auto text = [](const std::string& lines) { return "[[model]]\nfile = \"a.toml\"\n" + lines; };
  REQUIRE(parseSearchSpec(text(""), "spec").task().accelerators.size() == 29360);
  const SearchSpec spec = parseSearchSpec(
      text(
          "[architectures]\nevery = 100\ntensor_cores = 8\n[search]\nbatch = 64\n[[case]]\nmicrobatch = 4\n"),
      "spec");
  const std::vector<Accelerator> chosen = spec.task().accelerators;
  REQUIRE(chosen.size() > 10);
  REQUIRE(std::all_of(chosen.begin(), chosen.end(),
                      [](const Accelerator& one) { return one.tensor_cores == 8; }));
  REQUIRE(std::count_if(chosen.begin(), chosen.end(), [](const Accelerator& one) {
            return acceleratorArea(one) == acceleratorArea(referenceAccelerator());
          }) == 1);

  const auto refusal = [](const std::string& lines) -> std::string {
    try {
      parseSearchSpec(lines, "spec");
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  REQUIRE(refusal("").find("1 to 64 rows [[model]]") != std::string::npos);
  REQUIRE(refusal(text("[serach]\n")).find("did you mean 'search'?") != std::string::npos);
  REQUIRE(refusal(text("[search]\ndevices = 0\n")).find("spec:4:11: search/devices") != std::string::npos);
  REQUIRE(refusal(text("[search]\nengine = \"higs\"\n")).find("did you mean 'highs'?") != std::string::npos);
  REQUIRE(refusal(text("[[case]]\nmicrobatch = 3\n")).find("cannot be divided into microbatches of 3") !=
          std::string::npos);
  REQUIRE(refusal(text("[architectures]\nwidth = 3\n")).find("no accelerator of the search space") !=
          std::string::npos);
  REQUIRE(refusal("[[model]]\n").find("`file` is missing") != std::string::npos);
  REQUIRE(refusal(text("[search]\nnode_devices = 3\n")).find("must divide the 1024 devices") !=
          std::string::npos);
  REQUIRE(refusal(text("[search]\nnode_bandwidth = 1e9\n")).find("at least as fast") != std::string::npos);
  REQUIRE(refusal(text("[search]\nnode_bandwidth = 1e18\n")).find("`node_devices` is more than 1") !=
          std::string::npos);
  REQUIRE(refusal(text("[[case]]\nchoose_shard = true\n")).find("unless `adam` is true") !=
          std::string::npos);
  REQUIRE(refusal(text("[[case]]\nrecompute = true\nchoose_recompute = true\n")).find("has no effect") !=
          std::string::npos);
}

TEST_CASE("Mistakes in the description of a transformer are all reported", "[plan][search]") {
  const auto refusal = [](const std::string& lines) -> std::string {
    try {
      parseTransformer(lines, "m");
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string good = "[model]\nname = \"m\"\nlayers = 2\nwidth = 64\nheads = 4\nfeed_forward = 128\n"
                           "vocabulary = 10\nsequence = 8\n";
  REQUIRE(refusal(good) == "accepted");
  REQUIRE(refusal("").find("the section [model] is missing") != std::string::npos);
  REQUIRE(refusal(good + "norm = \"batch\"\n").find("m:9:8: model/norm") != std::string::npos);
  REQUIRE(refusal(good + "least_parts = 3\n").find("4 heads or 128 units are not divisible by 3") !=
          std::string::npos);
  REQUIRE(
      refusal(
          "[model]\nname = \"m\"\nlayers = 2\nwidth = 96\nheads = 12\nfeed_forward = 3072\nvocabulary = 10\n"
          "sequence = 8\nleast_parts = 3\nmost_parts = 8\n")
          .find("model/least_parts: 3 is not a power of two") != std::string::npos);
  REQUIRE(refusal(good + "[expert]\nstages = 2\n").find("`replicas` is missing") != std::string::npos);
  const auto expert = [&](const std::string& stages, const std::string& parts) {
    return refusal(good + "least_parts = 2\nmost_parts = 4\n[expert]\nreplicas = 8\nstages = " + stages +
                   "\nparts = " + parts + "\n");
  };
  REQUIRE(expert("2", "4") == "accepted");
  REQUIRE(expert("3", "4").find("expert/stages: must be at most the number of layers, 2") !=
          std::string::npos);
  for (const char* const parts : {"1", "8"})
    REQUIRE(expert("2", parts).find("expert/parts: must be from least_parts to most_parts, 2 to 4") !=
            std::string::npos);
  REQUIRE(expert("2", "3").find("expert/parts: 3 is not a power of two") != std::string::npos);
  REQUIRE(expert("3", "8").find("expert/parts: 4 heads or 128 units are not divisible by 8") !=
          std::string::npos);
  REQUIRE(expert("3", "8").find("expert/stages") != std::string::npos); // both are reported
  REQUIRE(refusal("[model]\nname = \"m\"\n").find("`layers` is missing") != std::string::npos);
}

} // namespace partita::test::plan_search
