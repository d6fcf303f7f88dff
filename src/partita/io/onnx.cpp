#include "partita/io/onnx.hpp"

#include "partita/config/names.hpp"
#include "partita/core/error.hpp"
#include "partita/core/provenance.hpp"
#include "partita/io/onnx_layers.hpp"

namespace partita {

namespace {

constexpr std::int64_t ir_version = 7, operator_set = 13; // those of ONNX 1.8, which all readers support

// Field numbers of onnx.proto.
namespace model {
enum {
  ir_version = 1,
  producer_name = 2,
  producer_version = 3,
  doc = 6,
  graph = 7,
  opset = 8,
  metadata = 14
};
} // namespace model

ProtobufMessage entryOf(int first_field, const std::string& first, int second_field,
                        const std::string& second) {
  ProtobufMessage message;
  message.text(first_field, first);
  message.text(second_field, second);
  return message;
}

/// Writes the steps of a network as nodes.
class Steps {
 public:
  Steps(const JoinedNetwork& network, OnnxGraph& graph) : _network(network), _graph(graph) {}
  void build();

 private:
  void addStandardisation();
  void addOperation(const Operation& operation, const std::string& output);
  void addLayer(const Operation& layer, const std::string& output);
  void addReencoding(const Operation& operation, const std::string& output);
  void addExit(const Operation& operation, const std::string& output);
  void addActivation(const Operation& operation, const std::string& output);
  void addGelu(const std::string& output);

  const JoinedNetwork& _network;
  OnnxGraph& _graph;
  OnnxGraph::Names _branches; ///< operands of later sums
  std::string _sum;           ///< of the exits so far; empty: there was none
};

void Steps::addStandardisation() {
  const auto values = static_cast<std::int64_t>(_network.shift.size());
  _graph.constant("input/shift", {values}, _network.shift);
  _graph.constant("input/scale", {values}, _network.scale);
  _graph.then("Sub", "input.shifted", {"input/shift"});
  _graph.then("Mul", "input.standardised", {"input/scale"});
}

void Steps::addOperation(const Operation& operation, const std::string& output) {
  for (const NamedTensor& tensor : operation.tensors) _graph.tensor(tensor);
  switch (operation.kind) {
  case Operation::Kind::layer:
    return addLayer(operation, output);
  case Operation::Kind::activation:
    return addActivation(operation, output);
  case Operation::Kind::reshape:
    return _graph.reshape(output, operation.shape);
  case Operation::Kind::branch:
    return _branches.push_back(_graph.current());
  case Operation::Kind::swap: {
    const std::string top = _branches.back();
    _branches.back() = _graph.current();
    return _graph.setCurrent(top);
  }
  case Operation::Kind::add: {
    const std::string other = _branches.back();
    _branches.pop_back();
    return _graph.then("Add", output, {other});
  }
  case Operation::Kind::exit:
    return addExit(operation, output);
  case Operation::Kind::sum:
    return _graph.add("Identity", output, {_sum});
  case Operation::Kind::reencode:
    return addReencoding(operation, output);
  }
}

void Steps::addLayer(const Operation& layer, const std::string& output) {
  const OnnxLayer add = onnxLayers().at(layer.type);
  PARTITA_REQUIRE(add != nullptr, layer.name + " has an operation without nodes");
  add(_graph, layer, output);
}

void Steps::addReencoding(const Operation& operation, const std::string& output) {
  const std::string &decoder = operation.tensors[0].name, &labels = operation.tensors[1].name;
  _graph.then("Gemm", operation.name + ".products", {decoder}, {OnnxGraph::integer("transB", 1)});
  _graph.then("Softmax", operation.name + ".posterior");
  _graph.then("MatMul", output, {labels});
}

void Steps::addExit(const Operation& operation, const std::string& output) {
  _graph.then("LogSoftmax", output + ".log_softmax", {}, {OnnxGraph::integer("axis", -1)});
  const auto weight = static_cast<float>(operation.weight);
  _graph.then("Mul", output + ".weighted",
              {_graph.constant(operation.name + "/factor", {}, std::vector{weight})});
  if (!_sum.empty()) _graph.then("Add", output, {_sum});
  _sum = _graph.current();
  _graph.setCurrent(_branches.back());
  _branches.pop_back();
}

void Steps::addActivation(const Operation& operation, const std::string& output) {
  switch (operation.activation) {
  case Activation::relu:
    return _graph.then("Relu", output);
  case Activation::leaky_relu:
    return _graph.then("LeakyRelu", output, {},
                       {OnnxGraph::real("alpha", static_cast<float>(operation.slope))});
  case Activation::gelu:
    return addGelu(output);
  case Activation::tanh:
    return _graph.then("Tanh", output);
  case Activation::sigmoid:
    return _graph.then("Sigmoid", output);
  case Activation::silu: {
    const std::string argument = _graph.current();
    _graph.then("Sigmoid", output + ".sigmoid");
    return _graph.then("Mul", output, {argument});
  }
  case Activation::identity:
    break;
  }
  PARTITA_FAIL("no operation for the activation " + nameOf(operation.activation));
}

/// z (1 + erf(z / sqrt(2))) / 2; the operator Gelu exists only from operator set 20 on.
void Steps::addGelu(const std::string& output) {
  const auto number = [&](const char* name, float value) {
    return _graph.constant(name, {}, std::vector{value});
  };
  const std::string argument = _graph.current();
  _graph.then("Mul", output + ".scaled", {number("gelu/root", 0.70710678118654752F)});
  _graph.then("Erf", output + ".erf");
  _graph.then("Add", output + ".sum", {number("gelu/one", 1.0F)});
  _graph.then("Mul", output + ".product", {argument});
  _graph.then("Mul", output, {number("gelu/half", 0.5F)});
}

void Steps::build() {
  _graph.setCurrent("features");
  if (!_network.tokens) addStandardisation();
  for (const Operation& operation : _network.operations) {
    addOperation(operation, &operation == &_network.operations.back() ? "logits" : operation.name);
  }
  _graph.input("features", {_network.inputs});
  _graph.output("logits", _network.outputs);
  if (_network.loss == LossKind::cross_entropy) {
    _graph.then("Softmax", "probabilities");
    _graph.output("probabilities", _network.outputs);
  }
}

} // namespace

void writeOnnx(const std::string& path, const JoinedNetwork& network) {
  ProtobufMessage file, opset;
  opset.text(1, ""); // the standard operators
  opset.integer(2, operator_set);
  file.integer(model::ir_version, ir_version);
  file.text(model::producer_name, "partita");
  file.text(model::producer_version, versionString());
  file.text(model::doc, network.origin);
  OnnxGraph graph;
  Steps(network, graph).build();
  file.message(model::graph, graph.message());
  file.message(model::opset, opset);
  file.message(model::metadata, entryOf(1, "deck", 2, network.deck));
  file.message(model::metadata, entryOf(1, "parameters_hash", 2, network.parameters_hash));
  if (!network.class_labels.empty())
    file.message(model::metadata, entryOf(1, "class_labels", 2, joined(network.class_labels, ",")));
  file.write(path);
}

} // namespace partita
