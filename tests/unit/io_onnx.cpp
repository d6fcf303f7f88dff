#include "partita/io/onnx.hpp"

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::io_onnx {

namespace {

/// A length-delimited field of fewer than 128 bytes.
std::string field(int number, const std::string& value) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(value.size())} + value;
}

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

/// 2 features, one dense layer of 3 units, an activation, re-encoding, a last dense layer without bias.
JoinedNetwork smallNetwork(Activation activation) {
  JoinedNetwork network;
  network.inputs = 2;
  network.classes = 2;
  network.shift = {1.0F};
  network.scale = {0.5F};
  network.deck = "# the deck\n";
  network.parameters_hash = "abc";
  Operation dense, act, reencode, last;
  dense.type = last.type = "dense";
  dense.name = "layer0.dense";
  dense.tensors = {{"layer0.dense/weight", {3, 2}, {1, 2, 3, 4, 5, 6}},
                   {"layer0.dense/bias", {3}, {7, 8, 9}}};
  act.kind = Operation::Kind::activation;
  act.name = "layer0.act";
  act.activation = activation;
  act.slope = 0.25;
  reencode.kind = Operation::Kind::reencode;
  reencode.name = "cut0.reencode";
  reencode.tensors = {{"D", {2, 3}, {1, 2, 3, 4, 5, 6}}, {"S", {2, 3}, {6, 5, 4, 3, 2, 1}}};
  last.name = "layer1.dense";
  last.tensors = {{"layer1.dense/weight", {2, 3}, {1, 2, 3, 4, 5, 6}}};
  network.operations = {dense, act, reencode, last};
  return network;
}

std::string modelOf(const JoinedNetwork& network) {
  const ScratchFolder folder;
  writeOnnx(folder.path("model.onnx"), network);
  return folder.read("model.onnx");
}

/// The node as encoded in the graph; attributes are complete AttributeProto messages.
std::string node(const std::vector<std::string>& inputs, const std::string& output, const std::string& type,
                 const std::string& attribute = {}) {
  std::string bytes;
  for (const std::string& input : inputs) bytes += field(1, input);
  bytes += field(2, output) + field(3, output) + field(4, type);
  if (!attribute.empty()) bytes += field(5, attribute);
  return field(1, bytes);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string transposed = field(1, "transB") + "\x18\x01\xa0\x01\x02";

} // namespace

TEST_CASE("An ONNX model has the nodes of the network in order", "[io]") {
  const std::string model = modelOf(smallNetwork(Activation::relu));
  const std::vector<std::string> nodes{
      node({"features", "input/shift"}, "input.shifted", "Sub"),
      node({"input.shifted", "input/scale"}, "input.standardised", "Mul"),
      node({"input.standardised", "layer0.dense/weight", "layer0.dense/bias"}, "layer0.dense", "Gemm",
           transposed),
      node({"layer0.dense"}, "layer0.act", "Relu"),
      node({"layer0.act", "D"}, "cut0.reencode.products", "Gemm", transposed),
      node({"cut0.reencode.products"}, "cut0.reencode.posterior", "Softmax"),
      node({"cut0.reencode.posterior", "S"}, "cut0.reencode", "MatMul"),
      node({"cut0.reencode", "layer1.dense/weight"}, "logits", "Gemm", transposed),
      node({"logits"}, "probabilities", "Softmax"),
  };
  std::size_t place = 0;
  for (const std::string& expected : nodes) {
    place = model.find(expected, place);
    INFO(expected);
    CHECK(place != std::string::npos);
  }
}

TEST_CASE("An ONNX model has the tensors, the deck and the hash", "[io]") {
  const std::string model = modelOf(smallNetwork(Activation::relu));
  CHECK(contains(model, field(5, "\x08\x03\x08\x02\x10\x01" + field(8, "layer0.dense/weight") +
                                     field(9, floats({1, 2, 3, 4, 5, 6})))));
  CHECK(contains(model, field(5, "\x08\x01\x10\x01" + field(8, "input/scale") + field(9, floats({0.5F})))));
  CHECK(contains(model, field(14, field(1, "deck") + field(2, "# the deck\n"))));
  CHECK(contains(model, field(14, field(1, "parameters_hash") + field(2, "abc"))));
  CHECK(contains(model, field(8, field(1, "") + "\x10\x0d"))); // the standard operators, opset 13
}

TEST_CASE("Activations in ONNX", "[io]") {
  const auto has = [](Activation activation, const std::string& part) {
    return contains(modelOf(smallNetwork(activation)), part);
  };
  const std::string alpha = field(1, "alpha") + '\x15' + floats({0.25F}) + "\xa0\x01\x01";
  CHECK(has(Activation::leaky_relu, node({"layer0.dense"}, "layer0.act", "LeakyRelu", alpha)));
  CHECK(has(Activation::tanh, node({"layer0.dense"}, "layer0.act", "Tanh")));
  CHECK(has(Activation::sigmoid, node({"layer0.dense"}, "layer0.act", "Sigmoid")));
  CHECK(has(Activation::gelu, node({"layer0.act.scaled"}, "layer0.act.erf", "Erf")));
  CHECK(has(Activation::gelu, node({"layer0.act.sum", "layer0.dense"}, "layer0.act.product", "Mul")));
}

TEST_CASE("A network trained by squared error has no probabilities", "[io]") {
  JoinedNetwork network = smallNetwork(Activation::relu);
  CHECK(contains(modelOf(network), "probabilities"));
  network.loss = LossKind::mse;
  CHECK_FALSE(contains(modelOf(network), "probabilities"));
}

} // namespace partita::test::io_onnx
