#include "partita/io/onnx_graph.hpp"

namespace partita {

namespace {

// Field numbers of onnx.proto.
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

/// TensorProto without its data.
ProtobufMessage headOf(const std::string& name, const std::vector<std::int64_t>& extents, std::int64_t type) {
  ProtobufMessage message;
  for (const std::int64_t extent : extents) message.integer(tensor::dims, extent);
  message.integer(tensor::data_type, type);
  message.text(tensor::name, name);
  return message;
}

ProtobufMessage floatTensor(const std::string& name, const std::vector<std::int64_t>& extents,
                            const std::vector<float>& values) {
  ProtobufMessage message = headOf(name, extents, OnnxGraph::float_type);
  message.data(tensor::raw_data, values.data(), values.size() * sizeof(float)); // little-endian, like memory
  return message;
}

/// ValueInfoProto of floats [batch, extents...].
ProtobufMessage valueOf(const std::string& name, const std::vector<std::int64_t>& extents) {
  ProtobufMessage rows, shape, values, type, info;
  rows.text(2, "batch");
  shape.message(1, rows);
  for (const std::int64_t extent : extents) {
    ProtobufMessage size;
    size.integer(1, extent);
    shape.message(1, size);
  }
  values.integer(1, OnnxGraph::float_type);
  values.message(2, shape);
  type.message(1, values);
  info.text(1, name);
  info.message(2, type);
  return info;
}

} // namespace

OnnxGraph::OnnxGraph() {
  _graph.text(graph::name, "partita");
}

ProtobufMessage OnnxGraph::real(const std::string& name, float value) {
  ProtobufMessage message;
  message.text(attribute::name, name);
  message.real(attribute::f, value);
  message.integer(attribute::type, attribute::type_float);
  return message;
}

ProtobufMessage OnnxGraph::integer(const std::string& name, std::int64_t value) {
  ProtobufMessage message;
  message.text(attribute::name, name);
  message.integer(attribute::i, value);
  message.integer(attribute::type, attribute::type_int);
  return message;
}

ProtobufMessage OnnxGraph::integers(const std::string& name, const std::vector<std::int64_t>& values) {
  ProtobufMessage message;
  message.text(attribute::name, name);
  for (const std::int64_t value : values) message.integer(attribute::ints, value);
  message.integer(attribute::type, attribute::type_ints);
  return message;
}

void OnnxGraph::add(const std::string& type, const std::string& output, const Names& inputs,
                    const Attributes& attributes) {
  ProtobufMessage message;
  for (const std::string& input : inputs) message.text(node::input, input);
  message.text(node::output, output);
  message.text(node::name, output);
  message.text(node::op_type, type);
  for (const ProtobufMessage& entry : attributes) message.message(node::attribute, entry);
  _graph.message(graph::node, message);
  _current = output;
}

void OnnxGraph::then(const std::string& type, const std::string& output, const Names& others,
                     const Attributes& attributes) {
  Names inputs{_current};
  inputs.insert(inputs.end(), others.begin(), others.end());
  add(type, output, inputs, attributes);
}

void OnnxGraph::reshape(const std::string& output, std::vector<std::int64_t> shape) {
  shape.insert(shape.begin(), -1);
  then("Reshape", output, {constant(output + "/shape", {static_cast<std::int64_t>(shape.size())}, shape)});
}

void OnnxGraph::tensor(const NamedTensor& tensor) {
  _graph.message(graph::initializer, floatTensor(tensor.name, tensor.extents, tensor.values));
}

std::string OnnxGraph::constant(const std::string& name, const std::vector<std::int64_t>& extents,
                                std::vector<float> values) {
  if (!_constants.insert(name).second) return name;
  _values.push_back(std::move(values));
  _graph.message(graph::initializer, floatTensor(name, extents, _values.back()));
  return name;
}

std::string OnnxGraph::constant(const std::string& name, const std::vector<std::int64_t>& extents,
                                const std::vector<std::int64_t>& values) {
  if (!_constants.insert(name).second) return name;
  ProtobufMessage message = headOf(name, extents, OnnxGraph::int64_type);
  message.text(tensor::raw_data,
               {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int64_t)});
  _graph.message(graph::initializer, message);
  return name;
}

void OnnxGraph::input(const std::string& name, const std::vector<std::int64_t>& extents) {
  _graph.message(graph::input, valueOf(name, extents));
}

void OnnxGraph::output(const std::string& name, const std::vector<std::int64_t>& extents) {
  _graph.message(graph::output, valueOf(name, extents));
}

} // namespace partita
