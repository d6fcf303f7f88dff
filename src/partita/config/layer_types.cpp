#include "partita/config/layer_types.hpp"

namespace partita {
namespace {

constexpr double most = 1 << 24;

void addNoKeys(Section&, LayerSpec&) {}

void addActivation(Section& section, LayerSpec& spec, const std::string& text) {
  section.add("activation", choice(spec.activation), text);
  section.add("slope", &spec.slope, within(0, 1), "", "leaky-relu: slope below 0");
}

void addDense(Section& section, LayerSpec& spec) {
  section
      .add("units", &spec.dense.units, within(0, most), "units",
           "outputs; 0, in the last layer only: one a class")
      .required = Required::but_last;
  addActivation(section, spec, "function of each output");
  section.add("bias", &spec.dense.bias, "whether b is there");
  section.add("tied", &spec.dense.tied,
              "W is the embedding's table, one tensor for both; a stage must have both");
}

void addActivationLayer(Section& section, LayerSpec& spec) {
  addActivation(section, spec, "the function");
}

void addInside(Section& section, LayerSpec& spec) {
  section.add("layers", &spec.layers, "the layers inside, in order; required").required = Required::always;
}

void addRecompute(Section& section, LayerSpec& spec) {
  section.add("recompute", &spec.recompute,
              "keep only the input for the backward pass, and compute the rest again there");
}

void addBlock(Section& section, LayerSpec& spec) {
  addInside(section, spec);
  addRecompute(section, spec);
}

void addResidual(Section& section, LayerSpec& spec) {
  addInside(section, spec);
  section.add("shortcut", &spec.shortcut, "what is done to x beside them; empty: nothing");
  addActivation(section, spec, "function of the sum");
  addRecompute(section, spec);
}

void addConvolution(Section& section, LayerSpec& spec) {
  ConvolutionKeys& keys = spec.convolution;
  section.add("channels", &keys.channels, within(1, most), "channels", "of the output; required").required =
      Required::always;
  section.add("kernel", Axes{&keys.kernel}, within(1, most), "places", "extents of the window");
  section.add("stride", Axes{&keys.stride}, within(1, most), "places", "from one window to the next");
  section.add("padding", Axes{&keys.padding, true}, within(0, most), "places",
              "zeros on each side; same: as many as make input / stride windows");
  section.add("dilation", Axes{&keys.dilation}, within(1, most), "places", "between neighbours in a window");
  section.add("groups", &keys.groups, within(1, most), "groups",
              "parts of the channels, each seen by its part of the output alone");
  section.add("bias", &keys.bias, "whether b is there, one value a channel");
  addActivation(section, spec, "function of each output");
}

void addPool(Section& section, LayerSpec& spec) {
  PoolKeys& keys = spec.pool;
  section.add("kernel", Axes{&keys.kernel}, within(1, most), "places", "extents of the window");
  section.add("stride", Axes{&keys.stride}, within(0, most), "places",
              "from one window to the next; 0: as far as the window is wide");
  section.add("padding", Axes{&keys.padding, true}, within(0, most), "places",
              "places on each side that do not count");
}

void addBatchNorm(Section& section, LayerSpec& spec) {
  BatchNormKeys& keys = spec.batch_norm;
  section.add("epsilon", &keys.epsilon, within(1e-30, 1), "", "added to the variance");
  section.add("momentum", &keys.momentum, within(0, 1), "",
              "weight of the latest batch in the running mean and variance");
  section.add("replicas", &keys.replicas,
              "mean and variance over what all replicas have of a microbatch; otherwise over what each has");
  addActivation(section, spec, "function of each output");
}

void addGroupNorm(Section& section, LayerSpec& spec) {
  section.add("groups", &spec.group_norm.groups, within(1, most), "groups", "of channels; required")
      .required = Required::always;
  section.add("epsilon", &spec.group_norm.epsilon, within(1e-30, 1), "", "added to the variance");
}

void addEmbedding(Section& section, LayerSpec& spec) {
  section.add("width", &spec.embedding.width, within(0, 1 << 20), "values", "of a vector; required")
      .required = Required::always;
  section.add("positions", &spec.embedding.positions, "add a learned vector for each position");
}

void addAttention(Section& section, LayerSpec& spec) {
  section.add("heads", &spec.attention.heads, within(1, 1 << 16), "heads", "each has its part of the width");
  section.add("bias", &spec.attention.bias, "whether the projections have biases");
}

void addNorm(Section& section, LayerSpec& spec) {
  section.add("epsilon", &spec.norm.epsilon, within(1e-30, 1), "", "added to the mean square");
}

void addDropout(Section& section, LayerSpec& spec) {
  section.add("rate", &spec.dropout.rate, withinBelow(0, 1), "", "share of the values that become 0");
}

} // namespace

const LayerTable<LayerType>& layerTypes() {
  static const LayerTable<LayerType> types{
      {"dense",
       {"Fully connected: activation(W x + b), of each position where the input is a sequence, and of all "
        "values otherwise.",
        addDense}},
      {"activation", {"A function of each value.", addActivationLayer}},
      {"block",
       {"Layers that count as one: cuts lie between blocks, not inside them.", addBlock, LayerRole::row}},
      {"residual", {"activation(layers(x) + shortcut(x)), as one layer.", addResidual}},
      {"conv2d",
       {"Convolution of an image {channels, rows, columns}: activation(W * x + b). kernel, stride, padding "
        "and dilation are an integer, or a list of one for rows and one for columns.",
        addConvolution}},
      {"conv3d",
       {"The same of a volume {channels, depth, rows, columns}; lists have three integers.", addConvolution}},
      {"max-pool",
       {"The largest value of each window, channel by channel, of an image or a volume.", addPool}},
      {"average-pool", {"The mean of each window, channel by channel, of an image or a volume.", addPool}},
      {"global-average-pool", {"The mean of each channel of an image or a volume: {channels}.", addNoKeys}},
      {"flatten", {"All values of a sample in a row; a dense layer does so by itself.", addNoKeys}},
      {"batch-norm",
       {"activation(scale (x - mean) / sqrt(variance + epsilon) + shift), with mean and variance of each "
        "channel of an image or a volume, or of each value of a vector, over the batch. Evaluation takes "
        "running ones.",
        addBatchNorm}},
      {"group-norm",
       {"scale (x - mean) / sqrt(variance + epsilon) + shift, with mean and variance of each group of "
        "channels "
        "of one sample, an image or a volume, or of each group of values of a vector; scale and shift are "
        "one "
        "per channel. The same in evaluation.",
        addGroupNorm}},
      {"embedding",
       {"A learned vector for each token; the first layer of a network on text.", addEmbedding,
        LayerRole::takes_tokens}},
      {"attention",
       {"Causal multi-head self-attention over the positions of a sequence, with a projection in front for "
        "all heads and one behind; needs width = heads x n.",
        addAttention}},
      {"layer-norm",
       {"The last extent of a sample, a position's values, gets mean 0 and deviation 1, then a learned "
        "factor and shift for each value.",
        addNorm}},
      {"rms-norm",
       {"The last extent of a sample, a position's values, gets root mean square 1, then a learned factor "
        "for each value.",
        addNorm}},
      {"dropout",
       {"While training, values become 0 at random and the others grow to make up for it; the same ones "
        "whatever the grid.",
        addDropout}}};
  return types;
}

Section describe(LayerSpec& spec) {
  const LayerType& type = layerTypes().at(spec.type);
  Section section{spec.type, type.text};
  type.addKeys(section, spec);
  section.add("repeat", &spec.repeat, within(1, 10000), "layers", "this many equal layers in a row");
  return section;
}

} // namespace partita
