#include "partita/plan/parts/part_chain.hpp"

#include "partita/plan/layer_rules.hpp"
#include "partita/plan/layers/table.hpp"

#include <utility>

namespace partita {

namespace {

const char* nameOf(PartStep kind) {
  switch (kind) {
  case PartStep::gather_slice:
  case PartStep::gather_reduce:
    return "gather";
  case PartStep::slice_gather:
    return "slice";
  case PartStep::reduce_gather:
    return "reduce";
  case PartStep::halo:
    return "halo";
  }
  return "exchange";
}

bool hasTensors(const LayerPlan& layer) {
  return !layer.parameterShapes().empty() || !layer.statisticsShapes().empty();
}

bool sameRanges(const Flow& a, const Flow& b) {
  return a.layout == b.layout && a.ranges == b.ranges && a.blocks == b.blocks;
}

/// An exchange between blocks of places and all places.
ExchangePlan withPlaces(ExchangePlan plan, const Flow& divided) {
  plan.owned = divided.blocks;
  plan.needed.assign(plan.owned.size(), allPlaces(divided.whole));
  plan.channels = divided.whole.front();
  return plan;
}

} // namespace

LayerPlan wholeOnPart(LayerPlan layer, int parts, int part) {
  for (auto* inside : {&layer.body, &layer.shortcut})
    for (LayerPlan& each : *inside) each = wholeOnPart(each, parts, part);
  if (layer.group() || !hasTensors(layer)) return layer;
  LayerPart has;
  has.parts = parts;
  has.whole = std::make_shared<LayerPlan>(layer);
  has.owns = part == 0;
  layer.part = std::make_shared<LayerPart>(std::move(has));
  return layer;
}

void PartChain::reserve(std::size_t layers) {
  constexpr std::size_t most_steps = 4; // of most layers: exchanges before and after it, and its activation
  _layers.reserve(most_steps * layers);
}

void PartChain::addWhole(const LayerPlan& layer) {
  toWhole(layer);
  _layers.push_back(wholeOnPart(layer, _parts, _part));
  _flow = wholeFlow(layer.out);
}

void PartChain::addInside(const LayerPlan& layer) {
  LayerPlan own = layer;
  own.in = this->own();
  own.out = own.rules().output(own);
  Flow out{_flow.layout, layer.out, _flow.ranges, _flow.blocks};
  // A flattened image has several values per channel.
  const std::int64_t values = layer.out[out.axis()] / layer.in[_flow.axis()];
  for (IndexRange& range : out.ranges) range = {range.begin * values, range.end * values};
  if (_flow.layout == Layout::places) return addPlaces(layer, std::move(own), std::move(out));
  LayerPart has;
  has.outputs = {_flow.ranges[static_cast<std::size_t>(_part)]};
  has.by_positions = _flow.layout == Layout::positions;
  has.owns = !has.by_positions || _part == 0;
  addDivided(layer, std::move(own), std::move(has), std::move(out));
}

void PartChain::addPlaces(const LayerPlan& layer, LayerPlan own, Flow out, const Block& interior) {
  LayerPart has;
  has.interior = interior;
  has.by_places = true;
  has.block = out.blocks[static_cast<std::size_t>(_part)];
  has.owns = _part == 0;
  addDivided(layer, std::move(own), std::move(has), std::move(out));
}

void PartChain::addDivided(const LayerPlan& layer, LayerPlan own, LayerPart has, Flow out) {
  has.parts = _parts;
  has.whole = std::make_shared<LayerPlan>(layer);
  own.part = std::make_shared<LayerPart>(std::move(has));
  _layers.push_back(std::move(own));
  _flow = std::move(out);
}

void PartChain::addSums(const LayerPlan& layer, LayerPlan own, LayerPart has, const Flow& wanted) {
  has.partial_output = wanted.layout == Layout::whole;
  addDivided(layer, std::move(own), std::move(has), wholeFlow(layer.out));
  if (wanted.layout == Layout::whole) return;
  addExchange(layer, {PartStep::reduce_gather, all(), wanted.items(), widthsOf(wanted), _part}, wanted.whole,
              wanted.own(_part));
  _flow = wanted;
}

void PartChain::addGroup(LayerPlan group, Flow out) {
  LayerPart has;
  has.parts = _parts;
  LayerPlan whole = group;
  whole.body.clear();
  whole.shortcut.clear();
  has.whole = std::make_shared<LayerPlan>(std::move(whole));
  group.part = std::make_shared<LayerPart>(std::move(has));
  group.in = own();
  _flow = std::move(out);
  group.out = own();
  _layers.push_back(std::move(group));
}

void PartChain::addActivation(const LayerPlan& layer) {
  if (layer.spec.activation == Activation::identity) return;
  LayerPlan activation = layer;
  activation.spec = activationOf(layer.spec);
  activation.in = activation.out = own();
  _layers.push_back(std::move(activation));
}

std::vector<std::int64_t> PartChain::widthsOf(const Flow& flow) const {
  std::vector<std::int64_t> widths;
  widths.reserve(static_cast<std::size_t>(_parts));
  for (int part = 0; part < _parts; ++part) widths.push_back(flow.widthOf(part));
  return widths;
}

void PartChain::toWhole(const LayerPlan& layer) {
  if (_flow.layout == Layout::whole) return;
  addExchange(layer,
              withPlaces({PartStep::gather_slice, all(), _flow.items(), widthsOf(_flow), _part}, _flow),
              own(), _flow.whole);
  _flow = wholeFlow(_flow.whole);
}

bool PartChain::shareWhole(const LayerPlan& layer) {
  if (_flow.layout == Layout::whole) return true;
  addExchange(layer, {PartStep::gather_reduce, all(), _flow.items(), widthsOf(_flow), _part}, own(),
              _flow.whole);
  _flow = wholeFlow(_flow.whole);
  return false;
}

void PartChain::divideAs(const LayerPlan& layer, const Flow& wanted) {
  if (sameRanges(_flow, wanted)) return;
  toWhole(layer);
  if (wanted.layout == Layout::whole) return;
  addExchange(layer,
              withPlaces({PartStep::slice_gather, all(), wanted.items(), widthsOf(wanted), _part}, wanted),
              wanted.whole, wanted.own(_part));
  _flow = wanted;
}

void PartChain::addExchange(const LayerPlan& layer, ExchangePlan plan, Shape in, Shape out) {
  LayerPlan step;
  step.spec.type = nameOf(plan.kind);
  step.place = layer.place;
  step.entry = layer.entry;
  step.index = layer.index;
  step.classes = layer.classes;
  step.in = std::move(in);
  step.out = std::move(out);
  step.exchange = std::make_shared<ExchangePlan>(std::move(plan));
  _layers.push_back(std::move(step));
}

} // namespace partita
