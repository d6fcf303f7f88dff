#include "partita/io/onnx_layers.hpp"

#include <cmath>

namespace partita {

namespace {

OnnxGraph::Names tensorsOf(const Operation& layer) {
  OnnxGraph::Names names;
  if (!layer.tied.empty()) names.push_back(layer.tied);
  for (const NamedTensor& tensor : layer.tensors) names.push_back(tensor.name);
  return names;
}

void addDense(OnnxGraph& graph, const Operation& layer, const std::string& output) {
  graph.then("Gemm", output, tensorsOf(layer), {OnnxGraph::integer("transB", 1)});
}

/// The settings are the attributes of the ONNX operators.
OnnxGraph::Attributes windowsOf(const Operation& layer, bool dilations = true) {
  OnnxGraph::Attributes attributes;
  for (const LayerStep::Setting& setting : layer.settings) {
    if (!dilations && setting.name == "dilations") continue;
    attributes.push_back(setting.name == "group" ? OnnxGraph::integer(setting.name, setting.integers.front())
                                                 : OnnxGraph::integers(setting.name, setting.integers));
  }
  return attributes;
}

void addConvolution(OnnxGraph& graph, const Operation& layer, const std::string& output) {
  graph.then("Conv", output, tensorsOf(layer), windowsOf(layer));
}

void addMaxPool(OnnxGraph& graph, const Operation& layer, const std::string& output) {
  graph.then("MaxPool", output, {}, windowsOf(layer));
}

/// Dilations exist only from operator set 19 on.
void addAveragePool(OnnxGraph& graph, const Operation& layer, const std::string& output) {
  graph.then("AveragePool", output, {}, windowsOf(layer, false));
}

void addGlobalAveragePool(OnnxGraph& graph, const Operation&, const std::string& output) {
  graph.then("GlobalAveragePool", output);
}

void addBatchNorm(OnnxGraph& graph, const Operation& layer, const std::string& output) {
  graph.then("BatchNormalization", output, tensorsOf(layer),
             {OnnxGraph::real("epsilon", static_cast<float>(layer.setting("epsilon").real))});
}

/// A tensor of one value per channel in a shape that broadcasts to [batch, channels, places...]. The current
/// value is kept.
std::string perChannel(OnnxGraph& graph, const Operation& layer, const std::string& tensor) {
  const std::string current = graph.current(), reshaped = tensor + ".channels";
  std::vector<std::int64_t> extents(layer.shape.size(), 1);
  extents.front() = -1;
  const auto axes = static_cast<std::int64_t>(extents.size());
  graph.add("Reshape", reshaped, {tensor, graph.constant(reshaped + "/shape", {axes}, extents)});
  graph.setCurrent(current);
  return reshaped;
}

/// GroupNormalization exists only from operator set 18 on. Instead, the groups are the channels of an
/// InstanceNormalization, and scale and shift of the channels are applied afterwards.
void addGroupNorm(OnnxGraph& graph, const Operation& layer, const std::string& output) {
  const std::int64_t groups = layer.setting("groups").integers.front();
  const std::vector<float> ones(static_cast<std::size_t>(groups), 1.0F), zeros(ones.size(), 0.0F);
  const std::string name = "group-norm/" + std::to_string(groups);
  graph.reshape(output + ".groups", {groups, valuesOf(layer.shape) / groups});
  graph.then("InstanceNormalization", output + ".normalised",
             {graph.constant(name + "/one", {groups}, ones), graph.constant(name + "/zero", {groups}, zeros)},
             {OnnxGraph::real("epsilon", static_cast<float>(layer.setting("epsilon").real))});
  graph.reshape(output + ".places", layer.shape);
  graph.then("Mul", output + ".scaled", {perChannel(graph, layer, layer.tensors[0].name)});
  graph.then("Add", output, {perChannel(graph, layer, layer.tensors[1].name)});
}

/// [batch, positions] tokens -> [batch, positions, width].
void addEmbedding(OnnxGraph& graph, const Operation& layer, const std::string& output) {
  graph.then("Cast", output + ".tokens", {}, {OnnxGraph::integer("to", OnnxGraph::int64_type)});
  const bool positions = layer.tensors.size() > 1;
  graph.add("Gather", positions ? output + ".vectors" : output, {layer.tensors[0].name, graph.current()});
  if (positions) graph.then("Add", output, {layer.tensors[1].name});
}

/// The current value divided by its root mean square along the last axis.
void addNormalised(OnnxGraph& graph, const Operation& layer, const std::string& output) {
  const std::string values = graph.current();
  const auto epsilon = static_cast<float>(layer.setting("epsilon").real);
  graph.add("Mul", output + ".squares", {values, values});
  graph.then("ReduceMean", output + ".variance", {}, {OnnxGraph::integers("axes", {-1})});
  graph.then("Add", output + ".shifted", {graph.constant(output + "/epsilon", {}, std::vector{epsilon})});
  graph.then("Sqrt", output + ".deviation");
  graph.add("Div", output + ".normalised", {values, graph.current()});
}

void addLayerNorm(OnnxGraph& graph, const Operation& layer, const std::string& output) {
  const std::string values = graph.current();
  graph.then("ReduceMean", output + ".mean", {}, {OnnxGraph::integers("axes", {-1})});
  graph.add("Sub", output + ".centred", {values, graph.current()});
  addNormalised(graph, layer, output);
  graph.then("Mul", output + ".scaled", {layer.tensors[0].name});
  graph.then("Add", output, {layer.tensors[1].name});
}

void addRmsNorm(OnnxGraph& graph, const Operation& layer, const std::string& output) {
  addNormalised(graph, layer, output);
  graph.then("Mul", output, {layer.tensors[0].name});
}

constexpr float unseen = -1e30F; // its exponential is 0, and its differences are finite

/// The tensors of an operation whose names begin with `part`: "qkv" or "out".
OnnxGraph::Names projectionOf(const Operation& layer, const std::string& part) {
  OnnxGraph::Names names;
  for (const NamedTensor& tensor : layer.tensors) {
    if (tensor.name.compare(layer.name.size() + 1, part.size(), part) == 0) names.push_back(tensor.name);
  }
  return names;
}

/// The mask: 0 where a position (row) may see another (column).
std::vector<float> causalMask(std::int64_t positions) {
  std::vector<float> mask;
  for (std::int64_t i = 0; i < positions; ++i)
    for (std::int64_t j = 0; j < positions; ++j) mask.push_back(j <= i ? 0.0F : unseen);
  return mask;
}

/// One of queries, keys and values, which lie one after another along the first axis of `all`.
std::string partOf(OnnxGraph& graph, const std::string& all, std::int64_t number, const std::string& output) {
  const std::string index = graph.constant("attention/" + std::to_string(number), {}, std::vector{number});
  graph.add("Gather", output, {all, index}, {OnnxGraph::integer("axis", 0)});
  return output;
}

/// [batch, positions, width] -> the same; positions see themselves and earlier ones.
void addAttention(OnnxGraph& graph, const Operation& layer, const std::string& output) {
  const std::int64_t positions = layer.shape[0], width = layer.shape[1],
                     heads = layer.setting("heads").integers.front(), head = width / heads;
  const OnnxGraph::Attributes transposed{OnnxGraph::integer("transB", 1)};
  graph.reshape(output + ".rows", {width});
  graph.then("Gemm", output + ".projected", projectionOf(layer, "qkv"), transposed);
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
  graph.then("Gemm", output + ".result", projectionOf(layer, "out"), transposed);
  graph.reshape(output, {positions, width});
}

constexpr OnnxLayer no_node = nullptr;

} // namespace

const LayerTable<OnnxLayer>& onnxLayers() {
  static const LayerTable<OnnxLayer> layers{{"dense", addDense},
                                            {"activation", no_node},
                                            {"block", no_node},
                                            {"residual", no_node},
                                            {"conv2d", addConvolution},
                                            {"conv3d", addConvolution},
                                            {"max-pool", addMaxPool},
                                            {"average-pool", addAveragePool},
                                            {"global-average-pool", addGlobalAveragePool},
                                            {"flatten", no_node},
                                            {"batch-norm", addBatchNorm},
                                            {"group-norm", addGroupNorm},
                                            {"embedding", addEmbedding},
                                            {"attention", addAttention},
                                            {"layer-norm", addLayerNorm},
                                            {"rms-norm", addRmsNorm},
                                            {"dropout", no_node}};
  return layers;
}

} // namespace partita
