#include "partita/config/image_layers.hpp"
#include "partita/config/parameters.hpp"

#include <stdexcept>

namespace partita {

void addActivation(Section& section, LayerSpec& spec, const std::string& text) {
  section.add("activation", choice(spec.activation), text);
  section.add("slope", &spec.slope, within(0, 1), "", "leaky-relu: slope below 0");
}

void addRepeat(Section& section, LayerSpec& spec) {
  section.add("repeat", &spec.repeat, within(1, 10000), "layers", "this many equal layers in a row");
}

namespace {

Section describeDense(LayerSpec& spec) {
  Section section{"dense", "Fully connected: activation(W x + b), of each position where the input is a "
                           "sequence, and of all values otherwise."};
  section.add("units", &spec.units, within(0, 1 << 24), "units",
              "outputs; 0, in the last layer only: one a class");
  addActivation(section, spec, "function of each output");
  section.add("bias", &spec.bias, "whether b is there");
  section.add("tied", &spec.tied, "W is the embedding's table, one tensor for both; a stage must have both");
  addRepeat(section, spec);
  return section;
}

Section describeEmbedding(LayerSpec& spec) {
  Section section{"embedding", "A learned vector for each token; the first layer of a network on text."};
  section.add("width", &spec.width, within(0, 1 << 20), "values", "of a vector; required");
  section.add("positions", &spec.positions, "add a learned vector for each position");
  addRepeat(section, spec);
  return section;
}

Section describeAttention(LayerSpec& spec) {
  Section section{"attention", "Causal multi-head self-attention over the positions of a sequence, with a "
                               "projection in front for all heads and one behind; needs width = heads x n."};
  section.add("heads", &spec.heads, within(1, 1 << 16), "heads", "each has its part of the width");
  section.add("bias", &spec.bias, "whether the projections have biases");
  addRepeat(section, spec);
  return section;
}

Section describeNorm(LayerSpec& spec, const std::string& name, const std::string& text) {
  Section section{name, text};
  section.add("epsilon", &spec.epsilon, within(1e-30, 1), "", "added to the mean square");
  addRepeat(section, spec);
  return section;
}

Section describeLayerNorm(LayerSpec& spec) {
  return describeNorm(spec, "layer-norm",
                      "The last extent of a sample, a position's values, gets mean 0 and deviation 1, then a "
                      "learned factor and shift for each value.");
}

Section describeRmsNorm(LayerSpec& spec) {
  return describeNorm(spec, "rms-norm",
                      "The last extent of a sample, a position's values, gets root mean square 1, then a "
                      "learned factor for each value.");
}

Section describeDropout(LayerSpec& spec) {
  Section section{"dropout", "While training, values become 0 at random and the others grow to make up for "
                             "it; the same ones whatever the grid."};
  section.add("rate", &spec.rate, withinBelow(0, 1), "", "share of the values that become 0");
  addRepeat(section, spec);
  return section;
}

Section describeActivation(LayerSpec& spec) {
  Section section{"activation", "A function of each value."};
  addActivation(section, spec, "the function");
  addRepeat(section, spec);
  return section;
}

void addGroup(Section& section, LayerSpec& spec) {
  section.add("recompute", &spec.recompute,
              "keep only the input for the backward pass, and compute the rest again there");
  addRepeat(section, spec);
}

Section describeBlock(LayerSpec& spec) {
  Section section{"block", "Layers that count as one: cuts lie between blocks, not inside them."};
  section.add("layers", &spec.layers, "the layers inside, in order; required");
  addGroup(section, spec);
  return section;
}

Section describeResidual(LayerSpec& spec) {
  Section section{"residual", "activation(layers(x) + shortcut(x)), as one layer."};
  section.add("layers", &spec.layers, "the layers inside, in order; required");
  section.add("shortcut", &spec.shortcut, "what is done to x beside them; empty: nothing");
  addActivation(section, spec, "function of the sum");
  addGroup(section, spec);
  return section;
}

} // namespace

const std::vector<LayerDescription>& layerTypes() {
  static const std::vector<LayerDescription> types{{"dense", describeDense},
                                                   {"activation", describeActivation},
                                                   {"block", describeBlock},
                                                   {"residual", describeResidual},
                                                   {"conv2d", describeConv2d},
                                                   {"conv3d", describeConv3d},
                                                   {"max-pool", describeMaxPool},
                                                   {"average-pool", describeAveragePool},
                                                   {"global-average-pool", describeGlobalAveragePool},
                                                   {"flatten", describeFlatten},
                                                   {"batch-norm", describeBatchNorm},
                                                   {"embedding", describeEmbedding},
                                                   {"attention", describeAttention},
                                                   {"layer-norm", describeLayerNorm},
                                                   {"rms-norm", describeRmsNorm},
                                                   {"dropout", describeDropout}};
  return types;
}

std::vector<std::string> layerTypeNames() {
  std::vector<std::string> names;
  for (const LayerDescription& type : layerTypes()) names.push_back(type.name);
  return names;
}

Section describe(LayerSpec& spec) {
  for (const LayerDescription& type : layerTypes())
    if (type.name == spec.type) return type.describe(spec);
  throw std::logic_error("no layer type '" + spec.type + "'");
}

} // namespace partita
