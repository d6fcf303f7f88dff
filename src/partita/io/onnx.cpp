#include "partita/io/onnx.hpp"

#include "partita/config/names.hpp"
#include "partita/core/error.hpp"
#include "partita/core/version.hpp"
#include "partita/io/protobuf.hpp"

namespace partita {

namespace {

constexpr std::int64_t ir_version = 7, operator_set = 13;  // as ONNX 1.8 has them: old enough for all readers
constexpr std::int64_t float_tensor = 1, int64_tensor = 7; // TensorProto.DataType

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
namespace graph {
enum { node = 1, name = 2, initializer = 5, input = 11, output = 12 };
} // namespace graph
namespace node {
enum { input = 1, output = 2, name = 3, op_type = 4, attribute = 5 };
} // namespace node
namespace attribute {
enum { name = 1, f = 2, i = 3, ints = 8, type = 20, type_float = 1, type_int = 2, type_ints = 7 };
} // namespace attribute
namespace tensor {
enum { dims = 1, data_type = 2, name = 8, raw_data = 9 };
} // namespace tensor

ProtobufMessage tensorOf(const std::string& name, const std::vector<std::int64_t>& extents,
                         const std::vector<float>& values) {
  ProtobufMessage message;
  for (const std::int64_t extent : extents) message.integer(tensor::dims, extent);
  message.integer(tensor::data_type, float_tensor);
  message.text(tensor::name, name);
  message.data(tensor::raw_data, values.data(), values.size() * sizeof(float)); // little-endian, as memory is
  return message;
}

ProtobufMessage entryOf(int first_field, const std::string& first, int second_field,
                        const std::string& second) {
  ProtobufMessage message;
  message.text(first_field, first);
  message.text(second_field, second);
  return message;
}

/// ValueInfoProto of a float matrix [batch, columns].
ProtobufMessage matrixOf(const std::string& name, std::int64_t columns) {
  ProtobufMessage rows, width, shape, matrix, type, info;
  rows.text(2, "batch");
  width.integer(1, columns);
  shape.message(1, rows);
  shape.message(1, width);
  matrix.integer(1, float_tensor);
  matrix.message(2, shape);
  type.message(1, matrix);
  info.text(1, name);
  info.message(2, type);
  return info;
}

ProtobufMessage floatAttribute(const std::string& name, float value) {
  ProtobufMessage message;
  message.text(attribute::name, name);
  message.real(attribute::f, value);
  message.integer(attribute::type, attribute::type_float);
  return message;
}

ProtobufMessage intAttribute(const std::string& name, std::int64_t value) {
  ProtobufMessage message;
  message.text(attribute::name, name);
  message.integer(attribute::i, value);
  message.integer(attribute::type, attribute::type_int);
  return message;
}

ProtobufMessage intsAttribute(const Operation::Setting& setting) {
  if (setting.name == "group") return intAttribute(setting.name, setting.values.front());
  ProtobufMessage message;
  message.text(attribute::name, setting.name);
  for (const std::int64_t value : setting.values) message.integer(attribute::ints, value);
  message.integer(attribute::type, attribute::type_ints);
  return message;
}

/// A chain of nodes: each takes what the one before it has made, but for the sums of branches.
class Chain {
 public:
  explicit Chain(const JoinedNetwork& network) : _network(network) { _graph.text(graph::name, "partita"); }

  ProtobufMessage build();

 private:
  using Names = std::vector<std::string>;

  /// One node of type `type` on the current value and the tensors `others`; its output is `name`.
  void add(const std::string& type, const std::string& name, const Names& others = {},
           const std::vector<ProtobufMessage>& attributes = {});
  void addTensor(const std::string& name, const std::vector<std::int64_t>& extents,
                 const std::vector<float>& values) {
    _graph.message(graph::initializer, tensorOf(name, extents, values));
  }
  void addStandardisation();
  void addOperation(const Operation& operation, const std::string& output);
  void addWindows(const std::string& type, const Operation& operation, const Names& names,
                  const std::string& output);
  void addReshape(const Operation& operation, const std::string& output);
  void addActivation(const Operation& operation, const std::string& output);
  void addGelu(const std::string& output);

  const JoinedNetwork& _network;
  ProtobufMessage _graph;
  std::string _current = "features";
  Names _branches; ///< what later sums take
  bool _has_gelu_constants = false;
};

void Chain::add(const std::string& type, const std::string& name, const Names& others,
                const std::vector<ProtobufMessage>& attributes) {
  ProtobufMessage message;
  message.text(node::input, _current);
  for (const std::string& other : others) message.text(node::input, other);
  message.text(node::output, name);
  message.text(node::name, name);
  message.text(node::op_type, type);
  for (const ProtobufMessage& entry : attributes) message.message(node::attribute, entry);
  _graph.message(graph::node, message);
  _current = name;
}

void Chain::addStandardisation() {
  const auto values = static_cast<std::int64_t>(_network.shift.size());
  addTensor("input/shift", {values}, _network.shift);
  addTensor("input/scale", {values}, _network.scale);
  add("Sub", "input.shifted", {"input/shift"});
  add("Mul", "input.standardised", {"input/scale"});
}

void Chain::addOperation(const Operation& operation, const std::string& output) {
  Names names;
  for (const NamedTensor& tensor : operation.tensors) {
    addTensor(tensor.name, tensor.extents, tensor.values);
    names.push_back(tensor.name);
  }
  switch (operation.kind) {
  case Operation::Kind::dense:
    return add("Gemm", output, names, {intAttribute("transB", 1)});
  case Operation::Kind::convolution:
    return addWindows("Conv", operation, names, output);
  case Operation::Kind::max_pool:
    return addWindows("MaxPool", operation, {}, output);
  case Operation::Kind::average_pool:
    return addWindows("AveragePool", operation, {}, output);
  case Operation::Kind::global_average_pool:
    return add("GlobalAveragePool", output);
  case Operation::Kind::batch_norm:
    return add("BatchNormalization", output, names,
               {floatAttribute("epsilon", static_cast<float>(operation.epsilon))});
  case Operation::Kind::reshape:
    return addReshape(operation, output);
  case Operation::Kind::branch:
    return _branches.push_back(_current);
  case Operation::Kind::swap:
    return std::swap(_current, _branches.back());
  case Operation::Kind::add: {
    const std::string other = _branches.back();
    _branches.pop_back();
    return add("Add", output, {other});
  }
  case Operation::Kind::activation:
    return addActivation(operation, output);
  case Operation::Kind::reencode:
    add("Gemm", operation.name + ".products", {names[0]}, {intAttribute("transB", 1)});
    add("Softmax", operation.name + ".posterior");
    return add("MatMul", output, {names[1]});
  }
}

void Chain::addWindows(const std::string& type, const Operation& operation, const Names& names,
                       const std::string& output) {
  std::vector<ProtobufMessage> attributes;
  for (const Operation::Setting& setting : operation.settings)
    if (type != "AveragePool" || setting.name != "dilations") attributes.push_back(intsAttribute(setting));
  add(type, output, names, attributes);
}

void Chain::addReshape(const Operation& operation, const std::string& output) {
  std::vector<std::int64_t> shape = operation.shape;
  shape.insert(shape.begin(), -1); // any number of samples
  ProtobufMessage message;
  message.integer(tensor::dims, static_cast<std::int64_t>(shape.size()));
  message.integer(tensor::data_type, int64_tensor);
  message.text(tensor::name, output + "/shape");
  message.text(tensor::raw_data,
               {reinterpret_cast<const char*>(shape.data()), shape.size() * sizeof(std::int64_t)});
  _graph.message(graph::initializer, message);
  add("Reshape", output, {output + "/shape"});
}

void Chain::addActivation(const Operation& operation, const std::string& output) {
  switch (operation.activation) {
  case Activation::relu:
    return add("Relu", output);
  case Activation::leaky_relu:
    return add("LeakyRelu", output, {}, {floatAttribute("alpha", static_cast<float>(operation.slope))});
  case Activation::gelu:
    return addGelu(output);
  case Activation::tanh:
    return add("Tanh", output);
  case Activation::sigmoid:
    return add("Sigmoid", output);
  case Activation::silu: {
    const std::string argument = _current;
    add("Sigmoid", output + ".sigmoid");
    return add("Mul", output, {argument});
  }
  case Activation::identity:
    break;
  }
  PARTITA_FAIL("no operation for the activation " + nameOf(operation.activation));
}

/// z (1 + erf(z / sqrt(2))) / 2; an operator of its own comes with operator set 20 only.
void Chain::addGelu(const std::string& output) {
  static const std::vector<float> root{0.70710678118654752F}, one{1.0F}, half{0.5F};
  if (!_has_gelu_constants) {
    addTensor("gelu/root", {}, root);
    addTensor("gelu/one", {}, one);
    addTensor("gelu/half", {}, half);
    _has_gelu_constants = true;
  }
  const std::string argument = _current;
  add("Mul", output + ".scaled", {"gelu/root"});
  add("Erf", output + ".erf");
  add("Add", output + ".sum", {"gelu/one"});
  add("Mul", output + ".product", {argument});
  add("Mul", output, {"gelu/half"});
}

ProtobufMessage Chain::build() {
  addStandardisation();
  for (const Operation& operation : _network.operations) {
    addOperation(operation, &operation == &_network.operations.back() ? "logits" : operation.name);
  }
  _graph.message(graph::input, matrixOf("features", _network.inputs));
  _graph.message(graph::output, matrixOf("logits", _network.classes));
  if (_network.loss == LossKind::cross_entropy) {
    add("Softmax", "probabilities");
    _graph.message(graph::output, matrixOf("probabilities", _network.classes));
  }
  return std::move(_graph);
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
  file.message(model::graph, Chain(network).build());
  file.message(model::opset, opset);
  file.message(model::metadata, entryOf(1, "deck", 2, network.deck));
  file.message(model::metadata, entryOf(1, "parameters_hash", 2, network.parameters_hash));
  file.write(path);
}

} // namespace partita
