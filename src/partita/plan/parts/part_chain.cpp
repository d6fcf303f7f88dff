#include "partita/plan/parts/part_chain.hpp"

#include "partita/plan/layer_rules.hpp"
#include "partita/plan/layers/table.hpp"

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
  if (a.layout != b.layout || a.ranges.size() != b.ranges.size()) return false;
  for (std::size_t i = 0; i < a.ranges.size(); ++i)
    if (a.ranges[i].begin != b.ranges[i].begin || a.ranges[i].end != b.ranges[i].end) return false;
  return true;
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
  layer.part = std::make_shared<LayerPart>(has);
  return layer;
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
  Flow out{_flow.layout, layer.out, _flow.ranges};
  // A flattened image has so many values per channel.
  const std::int64_t values = layer.out[out.axis()] / layer.in[_flow.axis()];
  for (AxisRange& range : out.ranges) range = {range.begin * values, range.end * values};
  LayerPart has;
  has.outputs = {_flow.ranges[static_cast<std::size_t>(_part)]};
  has.by_places = _flow.layout == Layout::places;
  has.owns = !has.by_places || _part == 0;
  addDivided(layer, own, has, out);
}

void PartChain::addDivided(const LayerPlan& layer, LayerPlan own, LayerPart has, Flow out) {
  has.parts = _parts;
  has.whole = std::make_shared<LayerPlan>(layer);
  own.part = std::make_shared<LayerPart>(std::move(has));
  _layers.push_back(std::move(own));
  _flow = std::move(out);
}

void PartChain::addGroup(LayerPlan group, Flow out) {
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
  addExchange(layer, {PartStep::gather_slice, all(), _flow.items(), widthsOf(_flow), _part}, own(),
              _flow.whole);
  _flow = wholeFlow(_flow.whole);
}

void PartChain::divideAs(const LayerPlan& layer, const Flow& wanted) {
  if (sameRanges(_flow, wanted)) return;
  toWhole(layer);
  if (wanted.layout == Layout::whole) return;
  addExchange(layer, {PartStep::slice_gather, all(), wanted.items(), widthsOf(wanted), _part}, wanted.whole,
              wanted.own(_part));
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
