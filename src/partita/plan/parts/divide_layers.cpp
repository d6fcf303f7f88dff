#include "partita/plan/parts/divide_layers.hpp"

#include "partita/config/names.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/layer_rules.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace partita {

namespace {

/// Can its outputs, or its inputs, be divided among ranks?
bool hasWeights(const LayerPlan& layer) {
  if (layer.group()) return false;
  const LayerRules& rules = layer.rules();
  if (rules.work() == LayerWork::convolution) return layer.spec.convolution.groups == 1;
  return rules.work() == LayerWork::product && !rules.tied(layer);
}

bool isConvolution(const LayerPlan& layer) {
  return layer.rules().work() == LayerWork::convolution;
}

bool& biasOf(LayerPlan& layer) {
  return isConvolution(layer) ? layer.spec.convolution.bias : layer.spec.dense.bias;
}

/// Gives the layer so many channels or units.
void setOutputs(LayerPlan& layer, std::int64_t count) {
  (isConvolution(layer) ? layer.spec.convolution.channels : layer.spec.dense.units) = count;
  layer.out[isSequence(layer.out) ? 1 : 0] = count;
}

/// A dense layer sees an image as so many values per channel.
std::int64_t inputsPerChannel(const LayerPlan& layer) {
  if (isConvolution(layer) || isSequence(layer.in)) return 1;
  return layer.inputs() / layer.in.front();
}

AxisRange scaled(const AxisRange& range, std::int64_t factor) {
  return {range.begin * factor, range.end * factor};
}

/// Ranks that divide a layer by input and by output: rank i * outputs + j has input group i and output
/// group j.
struct RankGrid {
  int inputs = 1, outputs = 1;
};

/// The grid that moves the fewest bytes, and of several such grids the one with the fewest messages.
/// Gathering inputs moves (outputs - 1) |x|, adding up outputs (inputs - 1) |y|.
RankGrid gridOf(const LayerPlan& layer, int parts) {
  RankGrid best{1, parts};
  auto least = std::make_pair(std::numeric_limits<std::int64_t>::max(), 0);
  for (int inputs = 1; inputs <= parts; ++inputs) {
    if (parts % inputs != 0) continue;
    const int outputs = parts / inputs;
    const auto cost =
        std::make_pair((outputs - 1) * layer.inputs() + (inputs - 1) * layer.outputs(), inputs + outputs);
    if (cost < least) best = {inputs, outputs};
    least = std::min(least, cost);
  }
  return best;
}

} // namespace

LayerDivider::LayerDivider(const StrategySection& strategy, int part, bool network_begins)
    : _split(strategy.split), _parts(static_cast<int>(strategy.parts)), _part(part), _first(network_begins) {}

Flow LayerDivider::between(const Shape& shape) const {
  const bool channels = grid() && shape.size() > 2 && divisible(shape, _parts);
  return channels ? channelFlow(shape, _parts) : wholeFlow(shape);
}

PartChain LayerDivider::divide(const std::vector<LayerPlan>& layers, const Flow& in, bool ends) {
  PartChain chain(_parts, _part, in);
  for (std::size_t i = 0; i < layers.size(); ++i) add(chain, layers, i, ends);
  return chain;
}

void LayerDivider::add(PartChain& chain, const std::vector<LayerPlan>& layers, std::size_t index, bool ends) {
  const LayerPlan& layer = layers[index];
  if (layer.group()) {
    if (layer.rules().residual())
      addResidual(chain, layer);
    else
      addBlock(chain, layer);
  } else if (hasWeights(layer)) {
    addWeights(chain, layer, channelsAfter(layers, index, ends));
  } else if (chain.flow().layout == Layout::channels && layer.rules().channelwise()) {
    chain.addChannelwise(layer);
  } else {
    chain.addWhole(layer);
  }
}

/// Do parts keep the channels of a layer with weights divided (`grid`)? In sequences only until the next
/// dense layer, because norms need whole positions; otherwise until the last layer with weights.
bool LayerDivider::channelsAfter(const std::vector<LayerPlan>& layers, std::size_t index, bool ends) const {
  if (!grid()) return false;
  const bool sequence = isSequence(layers[index].out);
  for (std::size_t i = index + 1; i < layers.size(); ++i) {
    if (hasWeights(layers[i])) return true;
    if (sequence && !layers[i].rules().channelwise()) return false;
    if (!sequence && layers[i].group()) return true;
  }
  return !sequence && !ends;
}

void LayerDivider::addWeights(PartChain& chain, const LayerPlan& layer, bool channels_wanted) {
  const bool first = std::exchange(_first, false), from_channels = chain.flow().layout == Layout::channels;
  switch (_split) {
  case Split::filter:
    return addByOutputs(chain, layer, true);
  case Split::channel: // the first layer, with few input channels, is not divided
    return first ? chain.addWhole(layer) : addByInputs(chain, layer);
  case Split::grid:
    if (from_channels) return channels_wanted ? addByBoth(chain, layer) : addByInputs(chain, layer);
    return addByOutputs(chain, layer, !channels_wanted);
  case Split::spatial:
    return chain.addWhole(layer);
  }
}

namespace {

Flow dividedOutputs(const LayerPlan& layer, int parts) {
  if (divisible(layer.out, parts)) return channelFlow(layer.out, parts);
  const std::int64_t outputs = layer.out[isSequence(layer.out) ? 1 : 0];
  throw UserError("strategy/parts: " + std::to_string(parts) + " parts cannot share the " +
                  std::to_string(outputs) + (isConvolution(layer) ? " output channels" : " units") + " of " +
                  layer.entry + " (" + layer.spec.type + ")");
}

Flow dividedInputs(const LayerPlan& layer, int parts) {
  if (divisible(layer.in, parts)) return channelFlow(layer.in, parts);
  const std::int64_t inputs = layer.in[isSequence(layer.in) ? 1 : 0];
  throw UserError("strategy/parts: " + std::to_string(parts) + " parts cannot share the " +
                  std::to_string(inputs) + (isConvolution(layer) ? " input channels" : " inputs") + " of " +
                  layer.entry + " (" + layer.spec.type + ")");
}

} // namespace

/// From the whole input, this part's outputs; `gathers`: every part then gets those of all.
void LayerDivider::addByOutputs(PartChain& chain, const LayerPlan& layer, bool gathers) {
  chain.toWhole(layer);
  const Flow out = dividedOutputs(layer, _parts);
  const AxisRange& range = out.ranges[static_cast<std::size_t>(_part)];
  LayerPlan own = layer;
  setOutputs(own, range.size());
  LayerPart has;
  has.outputs = {range};
  has.partial_input_gradient = true;
  chain.addDivided(layer, own, has, out);
  if (gathers) chain.toWhole(layer);
}

/// From this part's inputs, a part of each sum; the sums of all parts are the whole output.
void LayerDivider::addByInputs(PartChain& chain, const LayerPlan& layer) {
  if (chain.flow().layout == Layout::whole) chain.toChannels(layer, dividedInputs(layer, _parts));
  LayerPlan own = layer;
  own.in = chain.own();
  own.spec.activation = Activation::identity;
  biasOf(own) = biasOf(own) && _part == 0;
  LayerPart has;
  has.inputs = {scaled(chain.flow().ranges[static_cast<std::size_t>(_part)], inputsPerChannel(layer))};
  has.partial_output = true;
  chain.addDivided(layer, own, has, wholeFlow(layer.out));
  chain.addActivation(layer);
}

/// Ranks of one input group gather their inputs; each computes a part of the sums for its output group; ranks
/// of one output group add them up, and each keeps its own channels.
void LayerDivider::addByBoth(PartChain& chain, const LayerPlan& layer) {
  const Flow in = chain.flow(), out = dividedOutputs(layer, _parts);
  const RankGrid grid = gridOf(layer, _parts);
  const int i = _part / grid.outputs, j = _part % grid.outputs;
  LayerPlan own = layer;
  LayerPart has;
  const PartRing gathering{i * grid.outputs, 1, grid.outputs}, adding{j, grid.outputs, grid.inputs};
  ExchangePlan gather{PartStep::gather_reduce, gathering, in.items(), {}, j};
  AxisRange inputs{in.ranges[static_cast<std::size_t>(gathering.first)].begin, 0};
  for (int k = 0; k < grid.outputs; ++k) {
    gather.widths.push_back(in.widthOf(gathering.first + k));
    inputs.end = in.ranges[static_cast<std::size_t>(gathering.first + k)].end;
  }
  own.in[in.axis()] = inputs.size();
  has.inputs = {scaled(inputs, inputsPerChannel(layer))};
  ExchangePlan reduce{PartStep::reduce_gather, adding, out.items(), {}, i};
  std::int64_t outputs = 0;
  for (int k = 0; k < grid.inputs; ++k) {
    const int member = adding.first + k * adding.stride;
    reduce.widths.push_back(out.widthOf(member));
    has.outputs.push_back(out.ranges[static_cast<std::size_t>(member)]);
    outputs += has.outputs.back().size();
  }
  setOutputs(own, outputs);
  const bool complete = grid.inputs == 1;
  if (!complete) own.spec.activation = Activation::identity;
  biasOf(own) = biasOf(own) && i == 0;
  if (grid.outputs > 1) chain.addExchange(layer, gather, in.own(_part), own.in);
  const Shape sums = own.out;
  chain.addDivided(layer, own, has, out);
  if (complete) return;
  chain.addExchange(layer, reduce, sums, out.own(_part));
  chain.addActivation(layer);
}

void LayerDivider::addBlock(PartChain& chain, const LayerPlan& layer) {
  PartChain inside = divide(layer.body, chain.flow(), false);
  LayerPlan own = layer;
  own.body = inside.take();
  chain.addGroup(std::move(own), inside.flow());
}

/// Both branches begin with the same activation and end with the same division of the sum.
void LayerDivider::addResidual(PartChain& chain, const LayerPlan& layer) {
  const bool divided =
      between(layer.in).layout == Layout::channels && between(layer.out).layout == Layout::channels;
  const Flow out = divided ? between(layer.out) : wholeFlow(layer.out);
  if (divided)
    chain.toChannels(layer, between(layer.in));
  else
    chain.toWhole(layer);
  LayerPlan own = layer;
  const auto branch = [&](const std::vector<LayerPlan>& layers) {
    PartChain inside = divide(layers, chain.flow(), false);
    if (divided)
      inside.toChannels(layers.back(), out);
    else
      inside.toWhole(layers.back());
    return inside.take();
  };
  own.body = branch(layer.body);
  if (!layer.shortcut.empty()) own.shortcut = branch(layer.shortcut);
  chain.addGroup(std::move(own), out);
}

} // namespace partita
