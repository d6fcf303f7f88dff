#include "partita/io/onnx_sequences.hpp"

#include <cmath>

namespace partita {

namespace {

constexpr float unseen = -1e30F; // its exponential is 0, and it has differences that are numbers

/// The tensors of an operation whose names begin with `part`: "qkv" or "out".
OnnxGraph::Names namesOf(const Operation& operation, const std::string& part) {
  OnnxGraph::Names names;
  for (const NamedTensor& tensor : operation.tensors) {
    if (tensor.name.compare(operation.name.size() + 1, part.size(), part) == 0) names.push_back(tensor.name);
  }
  return names;
}

/// 0 where a position (row) may see another (column).
std::vector<float> causalMask(std::int64_t positions) {
  std::vector<float> mask;
  for (std::int64_t i = 0; i < positions; ++i)
    for (std::int64_t j = 0; j < positions; ++j) mask.push_back(j <= i ? 0.0F : unseen);
  return mask;
}

/// One of queries, keys and values, which lie behind one another along the first axis of `all`.
std::string partOf(OnnxGraph& graph, const std::string& all, std::int64_t number, const std::string& output) {
  const std::string index = graph.constant("attention/" + std::to_string(number), {}, std::vector{number});
  graph.add("Gather", output, {all, index}, {OnnxGraph::integer("axis", 0)});
  return output;
}

} // namespace

void addEmbedding(OnnxGraph& graph, const Operation& operation, const std::string& output) {
  graph.then("Cast", output + ".tokens", {}, {OnnxGraph::integer("to", OnnxGraph::int64_type)});
  const bool positions = operation.tensors.size() > 1;
  graph.add("Gather", positions ? output + ".vectors" : output, {operation.tensors[0].name, graph.current()});
  if (positions) graph.then("Add", output, {operation.tensors[1].name});
}

void addNorm(OnnxGraph& graph, const Operation& operation, const std::string& output) {
  const OnnxGraph::Attributes last{OnnxGraph::integers("axes", {-1})};
  std::string values = graph.current();
  if (operation.kind == Operation::Kind::layer_norm) {
    graph.then("ReduceMean", output + ".mean", {}, last);
    graph.add("Sub", output + ".centred", {values, graph.current()});
    values = graph.current();
  }
  graph.add("Mul", output + ".squares", {values, values});
  graph.then("ReduceMean", output + ".variance", {}, last);
  graph.then("Add", output + ".shifted",
             {graph.constant(output + "/epsilon", {}, std::vector{static_cast<float>(operation.epsilon)})});
  graph.then("Sqrt", output + ".deviation");
  graph.add("Div", output + ".normalised", {values, graph.current()});
  const bool shift = operation.tensors.size() > 1;
  graph.then("Mul", shift ? output + ".scaled" : output, {operation.tensors[0].name});
  if (shift) graph.then("Add", output, {operation.tensors[1].name});
}

void addAttention(OnnxGraph& graph, const Operation& operation, const std::string& output) {
  const std::int64_t positions = operation.shape[0], width = operation.shape[1],
                     heads = operation.settings.front().values.front(), head = width / heads;
  const OnnxGraph::Attributes transposed{OnnxGraph::integer("transB", 1)};
  graph.reshape(output + ".rows", {width});
  graph.then("Gemm", output + ".projected", namesOf(operation, "qkv"), transposed);
  graph.reshape(output + ".heads", {positions, 3, heads, head});
  graph.then("Transpose", output + ".qkv", {}, {OnnxGraph::integers("perm", {2, 0, 3, 1, 4})});
  const std::string all = graph.current(), query = partOf(graph, all, 0, output + ".query"),
                    value = partOf(graph, all, 2, output + ".value");
  partOf(graph, all, 1, output + ".key");
  graph.then("Transpose", output + ".columns", {}, {OnnxGraph::integers("perm", {0, 1, 3, 2})});
  graph.add("MatMul", output + ".products", {query, graph.current()});
  const float scale = 1.0F / std::sqrt(static_cast<float>(head));
  graph.then("Mul", output + ".scores", {graph.constant(output + "/factor", {}, std::vector{scale})});
  graph.then("Add", output + ".masked",
             {graph.constant("attention/mask" + std::to_string(positions), {positions, positions},
                             causalMask(positions))});
  graph.then("Softmax", output + ".weights");
  graph.then("MatMul", output + ".sums", {value});
  graph.then("Transpose", output + ".joined", {}, {OnnxGraph::integers("perm", {0, 2, 1, 3})});
  graph.reshape(output + ".outputs", {width});
  graph.then("Gemm", output + ".result", namesOf(operation, "out"), transposed);
  graph.reshape(output, {positions, width});
}

} // namespace partita
