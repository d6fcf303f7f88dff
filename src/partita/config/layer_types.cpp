#include "partita/config/layer_types.hpp"

namespace partita {
namespace {

constexpr double most = 1 << 24;

void addNoKeys(Section&, LayerSpec&) {}

void addActivation(Section& section, LayerSpec& spec, const std::string& text) {
  section.add("activation", choice(spec.activation),
              text + "; gelu: x Phi(x), exactly, with the error function");
  section.add("slope", &spec.slope, within(0, 1), "", "leaky-relu: slope for negative inputs");
}

void addDense(Section& section, LayerSpec& spec) {
  section
      .add("units", &spec.dense.units, within(0, most), "units",
           "number of outputs; 0, only in the last layer: one per class")
      .required = Required::but_last;
  addActivation(section, spec, "function of each output");
  section.add("bias", &spec.dense.bias, "whether to add b");
  section.add("tied", &spec.dense.tied,
              "use the embedding's table as W (one shared tensor); both layers must be in one stage");
}

void addActivationLayer(Section& section, LayerSpec& spec) {
  addActivation(section, spec, "the function");
}

void addInside(Section& section, LayerSpec& spec) {
  section.add("layers", &spec.layers, "the layers inside, in order; required").required = Required::always;
}

void addRecompute(Section& section, LayerSpec& spec) {
  section.add("recompute", &spec.recompute,
              "keep only the input for the backward pass, and recompute the rest there");
}

void addBlock(Section& section, LayerSpec& spec) {
  addInside(section, spec);
  addRecompute(section, spec);
}

void addResidual(Section& section, LayerSpec& spec) {
  addInside(section, spec);
  section.add("shortcut", &spec.shortcut, "layers applied to x in the shortcut; empty: none");
  addActivation(section, spec, "function of the sum");
  addRecompute(section, spec);
}

void addConvolution(Section& section, LayerSpec& spec) {
  ConvolutionKeys& keys = spec.convolution;
  section.add("channels", &keys.channels, within(1, most), "channels", "channels of the output; required")
      .required = Required::always;
  section.add("kernel", Axes{&keys.kernel}, within(1, most), "positions", "extents of the window");
  section.add("stride", Axes{&keys.stride}, within(1, most), "positions", "distance between windows");
  section.add("padding", Axes{&keys.padding, true}, within(0, most), "positions",
              "zeros on each side; same: as many as are needed for input / stride windows");
  section.add("dilation", Axes{&keys.dilation}, within(1, most), "positions",
              "distance between neighbours within a window");
  section.add("groups", &keys.groups, within(1, most), "groups",
              "number of groups of channels; each group of the output sees only its group of the input");
  section.add("bias", &keys.bias, "whether to add b, one value per channel");
  addActivation(section, spec, "function of each output");
}

void addPool(Section& section, LayerSpec& spec) {
  PoolKeys& keys = spec.pool;
  section.add("kernel", Axes{&keys.kernel}, within(1, most), "positions", "extents of the window");
  section.add("stride", Axes{&keys.stride}, within(0, most), "positions",
              "distance between windows; 0: the extent of the window");
  section.add("padding", Axes{&keys.padding, true}, within(0, most), "positions",
              "positions that are added on each side and ignored");
}

void addBatchNorm(Section& section, LayerSpec& spec) {
  BatchNormKeys& keys = spec.batch_norm;
  section.add("epsilon", &keys.epsilon, within(1e-30, 1), "", "added to the variance");
  section.add("momentum", &keys.momentum, within(0, 1), "",
              "weight of the latest batch in the running mean and variance");
  section.add("replicas", &keys.replicas,
              "compute mean and variance over the microbatch of all replicas; otherwise each replica uses "
              "its own part");
  addActivation(section, spec, "function of each output");
}

void addGroupNorm(Section& section, LayerSpec& spec) {
  section
      .add("groups", &spec.group_norm.groups, within(1, most), "groups",
           "number of groups of channels; required")
      .required = Required::always;
  section.add("epsilon", &spec.group_norm.epsilon, within(1e-30, 1), "", "added to the variance");
}

void addEmbedding(Section& section, LayerSpec& spec) {
  section.add("width", &spec.embedding.width, within(1, 1 << 20), "values", "values per vector; required")
      .required = Required::always;
  section.add("positions", &spec.embedding.positions, "add a learned vector for each position");
}

void addAttention(Section& section, LayerSpec& spec) {
  section.add("heads", &spec.attention.heads, within(1, 1 << 16), "heads",
              "number of heads; each uses its part of the width");
  section.add("bias", &spec.attention.bias, "whether the projections have biases");
}

void addNorm(Section& section, LayerSpec& spec) {
  section.add("epsilon", &spec.norm.epsilon, within(1e-30, 1), "",
              "added to the variance (layer-norm) or to the mean square (rms-norm)");
}

void addDropout(Section& section, LayerSpec& spec) {
  section.add("rate", &spec.dropout.rate, withinBelow(0, 1), "", "fraction of the values that are set to 0");
}

} // namespace

const LayerTable<LayerType>& layerTypes() {
  static const LayerTable<LayerType> types{
      {"dense",
       {"Fully connected: activation(W x + b), applied to each position of a sequence, or otherwise to all "
        "values of a sample.",
        addDense}},
      {"activation", {"A function applied to each value.", addActivationLayer}},
      {"block",
       {"Layers that count as one: cuts are between blocks, not inside them.", addBlock, LayerRole::row}},
      {"residual", {"activation(layers(x) + shortcut(x)), which counts as one layer.", addResidual}},
      {"conv2d",
       {"Convolution of an image {channels, rows, columns}: activation(W * x + b). kernel, stride, padding "
        "and dilation are one integer, or a list with one integer for rows and one for columns.",
        addConvolution}},
      {"conv3d",
       {"Like conv2d, for a volume {channels, depth, rows, columns}; lists have three integers.",
        addConvolution}},
      {"max-pool", {"The largest value of each window, per channel, of an image or a volume.", addPool}},
      {"average-pool", {"The mean of each window, per channel, of an image or a volume.", addPool}},
      {"global-average-pool",
       {"The mean of each channel of an image or a volume; the output is {channels}.", addNoKeys}},
      {"flatten", {"Turns a sample into one vector; a dense layer does this by itself.", addNoKeys}},
      {"batch-norm",
       {"activation(scale (x - mean) / sqrt(variance + epsilon) + shift). Mean and variance are taken over "
        "the batch, per channel of an image or a volume, or per value of a vector. Evaluation uses running "
        "values.",
        addBatchNorm, LayerRole::keeps_statistics}},
      {"group-norm",
       {"scale (x - mean) / sqrt(variance + epsilon) + shift. Mean and variance are taken over each group of "
        "channels of one sample (an image or a volume), or over each group of values of a vector; scale and "
        "shift are per channel. Evaluation does the same.",
        addGroupNorm}},
      {"embedding",
       {"A learned vector for each token; must be the first layer of a network on text.", addEmbedding,
        LayerRole::takes_tokens}},
      {"attention",
       {"Causal multi-head self-attention over the positions of a sequence, with an input projection for all "
        "heads and an output projection; width must be a multiple of heads.",
        addAttention}},
      {"layer-norm",
       {"Normalises the last extent of a sample (the values of a position) to mean 0 and standard deviation "
        "1, then applies a learned factor and shift per value.",
        addNorm}},
      {"rms-norm",
       {"Normalises the last extent of a sample (the values of a position) to root mean square 1, then "
        "applies a learned factor per value.",
        addNorm}},
      {"dropout",
       {"During training, sets random values to 0 and scales the others up to compensate; the choice does "
        "not depend on the grid of ranks.",
        addDropout}}};
  return types;
}

Section describe(LayerSpec& spec) {
  const LayerType& type = layerTypes().at(spec.type);
  Section section{spec.type, type.text};
  type.add_keys(section, spec);
  section.add("repeat", &spec.repeat, within(1, 10000), "layers", "number of identical layers in a row");
  return section;
}

} // namespace partita
