#include "partita/config/deck.hpp"
#include "partita/core/random.hpp"
#include "partita/data/load_data.hpp"

#include "bench_model.hpp"

namespace partita {

namespace {

/// A multi-layer perceptron 784-width x5-47.
std::vector<LayerSpec> perceptronLayers(std::int64_t width) {
  LayerSpec hidden, output;
  hidden.dense.units = width;
  hidden.activation = Activation::relu;
  hidden.repeat = 5;
  return {hidden, output};
}

/// The network of input-decks/lenet-mnist.toml.
std::vector<LayerSpec> leNetLayers() {
  LayerSpec conv, pool, dense, output;
  conv.type = "conv2d";
  conv.convolution.channels = 20;
  conv.convolution.kernel = {{5}};
  conv.activation = dense.activation = Activation::relu;
  pool.type = "max-pool";
  dense.dense.units = 500;
  LayerSpec second = conv;
  second.convolution.channels = 50;
  return {conv, pool, second, pool, dense, output};
}

/// A network with Adam on random bytes in memory.
BenchModel onRandomImages(const std::vector<LayerSpec>& layers, std::int64_t batch,
                          const BenchSetting& setting) {
  RunConfig config;
  config.network.layers = layers;
  config.training.batch = batch;
  DataSets sets;
  const RandomStream random(1, Stream::glyph_noise);
  std::vector<std::uint8_t> bytes(16 * batch * 784);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(random.below(i, 256));
  sets.train.features = Samples(784, std::move(bytes));
  std::vector<std::int32_t> labels;
  labels.reserve(16 * batch);
  for (std::int64_t i = 0; i < 16 * batch; ++i)
    labels.push_back(static_cast<std::int32_t>(random.below(i, 47)));
  sets.train.labels = std::move(labels);
  sets.shape = {1, 28, 28};
  sets.classes = 47;
  sets.shift = {127.5F};
  sets.scale = {1.0F / 73.9F};
  return {config, std::move(sets), setting};
}

/// The layers of input-decks/resnet-emnist.toml.
const char* const resnet_deck = R"(
[network]
layers = [
  { type = "conv2d", channels = 16, kernel = 3, padding = 1, bias = false },
  { type = "batch-norm", activation = "relu" },
  { type = "residual", activation = "relu", layers = [
    { type = "conv2d", channels = 32, kernel = 3, stride = 2, padding = 1, bias = false },
    { type = "batch-norm", activation = "relu" },
    { type = "conv2d", channels = 32, kernel = 3, padding = 1, bias = false },
    { type = "batch-norm" },
  ], shortcut = [
    { type = "conv2d", channels = 32, kernel = 1, stride = 2, bias = false }, { type = "batch-norm" },
  ] },
  { type = "residual", activation = "relu", layers = [
    { type = "conv2d", channels = 64, kernel = 3, stride = 2, padding = 1, bias = false },
    { type = "batch-norm", activation = "relu" },
    { type = "conv2d", channels = 64, kernel = 3, padding = 1, bias = false },
    { type = "batch-norm" },
  ], shortcut = [
    { type = "conv2d", channels = 64, kernel = 1, stride = 2, bias = false }, { type = "batch-norm" },
  ] },
  { type = "residual", activation = "relu", layers = [
    { type = "conv2d", channels = 64, kernel = 3, padding = 1, bias = false },
    { type = "batch-norm", activation = "relu" },
    { type = "conv2d", channels = 64, kernel = 3, padding = 1, bias = false },
    { type = "batch-norm" },
  ] },
  { type = "global-average-pool" },
  { type = "dense" },
]
)";

/// Six blocks of width 256 on windows of 128 characters, without dropout.
const char* const gpt_deck = R"(
[data]
kind = "grammar"
sequence = 128
samples = 64
test_samples = 1
[network]
layers = [
  { type = "embedding", width = 256, positions = true },
  { type = "block", repeat = 6, layers = [
    { type = "residual", layers = [{ type = "layer-norm" }, { type = "attention", heads = 4 }] },
    { type = "residual", layers = [{ type = "layer-norm" },
      { type = "dense", units = 1024, activation = "gelu" }, { type = "dense", units = 256 }] },
  ] },
  { type = "layer-norm" },
  { type = "dense" },
]
[training]
batch = 16
)";

} // namespace

BenchModel perceptron(std::int64_t width, std::int64_t batch, const BenchSetting& setting) {
  return onRandomImages(perceptronLayers(width), batch, setting);
}

BenchModel leNet(std::int64_t batch, const BenchSetting& setting) {
  return onRandomImages(leNetLayers(), batch, setting);
}

BenchModel smallResNet(std::int64_t batch, const BenchSetting& setting) {
  return onRandomImages(parseDeck(resnet_deck, "bench").network.layers, batch, setting);
}

BenchModel smallGpt(const BenchSetting& setting) {
  const RunConfig deck = parseDeck(gpt_deck, "bench");
  return {deck, loadData(deck.data, 1, Need::everything), setting};
}

} // namespace partita
