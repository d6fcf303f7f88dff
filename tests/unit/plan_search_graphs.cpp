#include "partita/config/deck.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/schedule/bit_set.hpp"
#include "partita/plan/search/latency.hpp"
#include "partita/plan/search/network_graph.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <tuple>

#include "search_models.hpp"
#include "support/catch.hpp"
#include "support/source_directory.hpp"

namespace partita::test::plan_search_graphs {

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

} // namespace partita::test::plan_search_graphs
