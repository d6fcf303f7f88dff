#include "partita/plan/parts/divide_layers.hpp"

#include "partita/config/names.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/layer_rules.hpp"
#include "partita/plan/parts/part_of_stage.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace partita {

namespace {

/// Can the layer's outputs or inputs be divided among ranks?
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

/// Sets the number of channels or units.
void setOutputs(LayerPlan& layer, std::int64_t count) {
  (isConvolution(layer) ? layer.spec.convolution.channels : layer.spec.dense.units) = count;
  layer.out[isSequence(layer.out) ? 1 : 0] = count;
}

/// Values per input channel. A dense layer sees an image as several values per channel.
std::int64_t inputsPerChannel(const LayerPlan& layer) {
  if (isConvolution(layer) || isSequence(layer.in)) return 1;
  return layer.inputs() / layer.in.front();
}

IndexRange scaled(const IndexRange& range, std::int64_t factor) {
  return {range.begin * factor, range.end * factor};
}

/// Ranks that divide a layer by input and by output: rank i * outputs + j has input group i and output
/// group j.
struct ChannelGroups {
  int inputs = 1, outputs = 1;
};

/// The grid that moves the fewest bytes: gathering inputs moves (outputs - 1) |x|, and adding up outputs
/// moves (inputs - 1) |y|. Ties go to the grid with the fewest messages, then to the one with the fewest
/// inputs per rank, because a convolution has to copy the windows of its inputs.
ChannelGroups gridOf(const LayerPlan& layer, int parts) {
  ChannelGroups best{1, parts};
  auto least = std::make_pair(std::numeric_limits<std::int64_t>::max(), 0);
  for (int inputs = 1; inputs <= parts; ++inputs) {
    if (parts % inputs != 0) continue;
    const int outputs = parts / inputs;
    const auto cost =
        std::make_pair((outputs - 1) * layer.inputs() + (inputs - 1) * layer.outputs(), inputs + outputs);
    if (cost <= least) best = {inputs, outputs};
    least = std::min(least, cost);
  }
  return best;
}

} // namespace

LayerDivider::LayerDivider(const StrategySection& strategy, const StagePlan& stage, int part)
    : _split(strategy.split), _by_places(dividesPlaces(strategy)), _chosen(strategy.parts_grid.values),
      _grid(stage.place_grid), _parts(static_cast<int>(strategy.parts)), _part(part), _first(stage.first()) {}

Flow LayerDivider::between(const Shape& shape) const {
  if (grid() && positionsDivisible(shape, _parts)) return positionFlow(shape, _parts);
  if (grid() && shape.size() > 2 && divisible(shape, _parts)) return channelFlow(shape, _parts);
  if (_by_places && placesDivisible(shape, _grid)) return placeFlow(shape, _grid);
  return wholeFlow(shape);
}

PartChain LayerDivider::divide(const std::vector<LayerPlan>& layers, const Flow& in, bool ends) {
  PartChain chain(_parts, _part, in);
  chain.reserve(layers.size());
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
  } else if (_by_places) {
    addByPlaces(chain, layer);
  } else if (grid() && (isSequence(layer.in) || isSequence(layer.out))) {
    addInSequence(chain, layers, index, ends);
  } else if (hasWeights(layer)) {
    addWeights(chain, layer, channelsAfter(layers, index, ends));
  } else if (chain.flow().layout == Layout::channels && layer.rules().channelwise()) {
    chain.addInside(layer);
  } else {
    const bool learns = layer.parameters() > 0 && layer.rules().work() != LayerWork::normalisation;
    if (learns) _first = false; // an embedding or attention
    chain.addWhole(layer);
  }
}

/// Do outputs of a layer with weights stay divided by channel (`grid`)? In sequences only if a dense layer
/// follows with no norm before it, because norms need whole positions. Otherwise until the last layer with
/// weights, and after it if gathering its inputs, whose gradients are added up, moves less than adding up its
/// outputs.
bool LayerDivider::channelsAfter(const std::vector<LayerPlan>& layers, std::size_t index, bool ends) const {
  if (!grid()) return false;
  const bool sequence = isSequence(layers[index].out);
  for (std::size_t i = index + 1; i < layers.size(); ++i) {
    if (hasWeights(layers[i])) return true;
    if (sequence && !layers[i].rules().channelwise()) return false;
    if (!sequence && layers[i].group()) return true;
  }
  if (sequence) return false;
  const LayerPlan& last = layers[index];
  return !ends || (_divides_classes && index + 1 == layers.size() &&
                   2 * last.inputs() + _parts * ClassParts::statistics < 2 * last.outputs());
}

void LayerDivider::addWeights(PartChain& chain, const LayerPlan& layer, bool channels_wanted) {
  const bool first = std::exchange(_first, false), from_channels = chain.flow().layout == Layout::channels;
  switch (_split) {
  case Split::filter:
    return addByOutputs(chain, layer, true);
  case Split::channel: // the first layer, with few input channels, is not divided
    return first ? chain.addWhole(layer) : addByInputs(chain, layer, wholeFlow(layer.out));
  case Split::grid:
    if (from_channels)
      return channels_wanted ? addByBoth(chain, layer) : addByInputs(chain, layer, wholeFlow(layer.out));
    return addByOutputs(chain, layer, !channels_wanted);
  case Split::spatial: // handled by addByPlaces
    break;
  }
}

namespace {

/// Divides the channels of an input or output of the layer. `words` are their names in a convolution and in a
/// dense layer.
Flow dividedChannels(const LayerPlan& layer, const Shape& shape, int parts,
                     const std::pair<const char*, const char*>& words) {
  if (divisible(shape, parts)) return channelFlow(shape, parts);
  throw UserError("strategy/parts: " + std::to_string(parts) + " parts cannot share the " +
                  std::to_string(shape[isSequence(shape) ? 1 : 0]) +
                  (isConvolution(layer) ? words.first : words.second) + " of " + layer.entry + " (" +
                  layer.spec.type + ")");
}

Flow dividedOutputs(const LayerPlan& layer, int parts) {
  return dividedChannels(layer, layer.out, parts, {" output channels", " units"});
}

Flow dividedInputs(const LayerPlan& layer, int parts) {
  return dividedChannels(layer, layer.in, parts, {" input channels", " inputs"});
}

} // namespace

/// Computes this part's outputs from the whole input. `gathers`: every part then gets all outputs.
void LayerDivider::addByOutputs(PartChain& chain, const LayerPlan& layer, bool gathers) {
  LayerPart has;
  has.partial_input_gradient = chain.shareWhole(layer);
  const Flow out = dividedOutputs(layer, _parts);
  const IndexRange& range = out.ranges[static_cast<std::size_t>(_part)];
  LayerPlan own = layer;
  setOutputs(own, range.size());
  has.outputs = {range};
  chain.addDivided(layer, std::move(own), std::move(has), out);
  if (gathers) chain.toWhole(layer);
}

/// Computes a partial sum of each output from this part's inputs. The sums over all parts are the output.
void LayerDivider::addByInputs(PartChain& chain, const LayerPlan& layer, const Flow& wanted) {
  if (chain.flow().layout == Layout::whole) chain.divideAs(layer, dividedInputs(layer, _parts));
  LayerPlan own = layer;
  own.in = chain.own();
  own.spec.activation = Activation::identity;
  biasOf(own) = biasOf(own) && _part == 0;
  LayerPart has;
  has.inputs = {scaled(chain.flow().ranges[static_cast<std::size_t>(_part)], inputsPerChannel(layer))};
  chain.addSums(layer, std::move(own), std::move(has), wanted);
  chain.addActivation(layer);
}

/// Ranks of an input group gather their inputs, and each computes partial sums for its output group. Ranks of
/// an output group add these up, and each keeps its own channels.
void LayerDivider::addByBoth(PartChain& chain, const LayerPlan& layer) {
  const Flow in = chain.flow(), out = dividedOutputs(layer, _parts);
  const ChannelGroups grid = _chosen.size() > 1
                                 ? ChannelGroups{static_cast<int>(_chosen[0]), static_cast<int>(_chosen[1])}
                                 : gridOf(layer, _parts);
  const int i = _part / grid.outputs, j = _part % grid.outputs;
  LayerPlan own = layer;
  LayerPart has;
  const PartRing gathering{i * grid.outputs, 1, grid.outputs}, adding{j, grid.outputs, grid.inputs};
  ExchangePlan gather{PartStep::gather_reduce, gathering, in.items(), {}, j};
  IndexRange inputs{in.ranges.at(gathering.first).begin, 0};
  for (int k = 0; k < grid.outputs; ++k) {
    const int member = gathering.first + k;
    gather.widths.push_back(in.widthOf(member));
    inputs.end = in.ranges.at(member).end;
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
  chain.addDivided(layer, std::move(own), std::move(has), out);
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
      between(layer.in).layout != Layout::whole && between(layer.out).layout != Layout::whole;
  const Flow out = divided ? between(layer.out) : wholeFlow(layer.out);
  chain.divideAs(layer, divided ? between(layer.in) : wholeFlow(layer.in));
  LayerPlan own = layer;
  const auto branch = [&](const std::vector<LayerPlan>& layers) {
    PartChain inside = divide(layers, chain.flow(), false);
    inside.divideAs(layers.back(), out);
    return inside.take();
  };
  own.body = branch(layer.body);
  if (!layer.shortcut.empty()) own.shortcut = branch(layer.shortcut);
  chain.addGroup(std::move(own), out);
}

} // namespace partita
