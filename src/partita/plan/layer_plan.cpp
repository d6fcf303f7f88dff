#include "partita/plan/layer_plan.hpp"

#include "partita/plan/layer_rules.hpp"
#include "partita/plan/layers/table.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace partita {

const std::vector<std::int64_t>& extentsOf(const std::vector<ParameterShape>& shapes,
                                           const std::string& name) {
  for (const ParameterShape& shape : shapes)
    if (shape.name == name) return shape.extents;
  throw std::logic_error("no tensor '" + name + "'");
}

const LayerRules& LayerPlan::rules() const {
  if (exchange) return exchangeRules();
  return *layerRules().at(spec.type);
}

std::vector<ParameterShape> LayerPlan::parameterShapes() const {
  return rules().parameters(*this);
}

std::vector<TensorSlice> LayerPlan::slicesOf(const std::string& name,
                                             const std::vector<std::int64_t>& whole_extents) const {
  return part ? partita::slicesOf(*part, name, whole_extents)
              : std::vector<TensorSlice>{wholeOf(whole_extents)};
}

IndexRange LayerPlan::ownRows(const std::string& name, std::int64_t rows) const {
  const TensorSlice own = slicesOf(name, {rows}).front();
  return {own.offset[0], own.offset[0] + own.extents[0]};
}

std::vector<ParameterShape> LayerPlan::statisticsShapes() const {
  return rules().statistics(*this);
}

std::int64_t LayerPlan::statistics() const {
  std::int64_t sum = 0;
  for (const ParameterShape& shape : statisticsShapes()) sum += shape.size();
  for (const LayerPlan& layer : body) sum += layer.statistics();
  for (const LayerPlan& layer : shortcut) sum += layer.statistics();
  return sum;
}

std::int64_t LayerPlan::parameters() const {
  std::int64_t sum = countParameters(body) + countParameters(shortcut);
  for (const ParameterShape& shape : parameterShapes()) sum += shape.size();
  return sum;
}

std::int64_t LayerPlan::storedValues() const {
  std::int64_t sum = 0;
  for (const ParameterShape& shape : parameterShapes()) sum += storedSize(shape.size());
  for (const LayerPlan& layer : body) sum += layer.storedValues();
  for (const LayerPlan& layer : shortcut) sum += layer.storedValues();
  return sum;
}

double LayerPlan::forwardFlops() const {
  return rules().forwardFlops(*this);
}
double LayerPlan::weightFlops() const {
  return rules().weightFlops(*this);
}
double LayerPlan::inputFlops() const {
  return rules().inputFlops(*this);
}
double LayerPlan::recomputedFlops() const {
  return rules().recomputedFlops(*this);
}
Effort LayerPlan::forwardEffort() const {
  return {forwardFlops(), rules().moves(*this).forward};
}
Effort LayerPlan::weightEffort() const {
  return {weightFlops(), rules().moves(*this).parameters};
}
Effort LayerPlan::inputEffort() const {
  return {inputFlops(), rules().moves(*this).input};
}
std::int64_t LayerPlan::widestInside() const {
  std::int64_t widest = std::max(inputRoom(), outputRoom());
  for (const LayerPlan& layer : body) widest = std::max(widest, layer.outputRoom());
  for (const LayerPlan& layer : shortcut) widest = std::max(widest, layer.outputRoom());
  return alignedRoom(widest);
}
std::int64_t LayerPlan::savedValues() const {
  return rules().savedValues(*this);
}
bool LayerPlan::reorders() const {
  return !layoutOf(in).trivial() && rules().inShapeOrder();
}
std::int64_t LayerPlan::workValues(std::int64_t rows) const {
  std::int64_t values = rules().workValues(*this, rows);
  if (reorders()) // the input, its gradient, and if it is an image the output or its gradient
    values +=
        rows * (2 * alignedRoom(inputRoom()) + (layoutOf(out).trivial() ? 0 : alignedRoom(outputRoom())));
  if (part && part->partial_output) values = std::max(values, sumValues(rows * outputs()));
  if (part && part->partial_input_gradient) values = std::max(values, sumValues(rows * inputs()));
  return values;
}
std::int64_t LayerPlan::halfScratch(std::int64_t rows) const {
  return rules().halfScratch(*this, rows);
}

bool needsArgument(Activation activation) {
  return activation == Activation::gelu || activation == Activation::silu;
}

namespace {

void appendLeaves(const std::vector<LayerPlan>& layers, std::vector<const LayerPlan*>& leaves) {
  for (const LayerPlan& layer : layers) {
    if (!layer.group()) leaves.push_back(&layer);
    appendLeaves(layer.body, leaves);
    appendLeaves(layer.shortcut, leaves);
  }
}

} // namespace

std::vector<const LayerPlan*> leavesOf(const std::vector<LayerPlan>& layers) {
  std::vector<const LayerPlan*> leaves;
  appendLeaves(layers, leaves);
  return leaves;
}

std::int64_t countParameters(const std::vector<LayerPlan>& layers) {
  return std::accumulate(layers.begin(), layers.end(), std::int64_t{0},
                         [](std::int64_t sum, const LayerPlan& layer) { return sum + layer.parameters(); });
}

bool readHalf(const std::vector<LayerPlan>& layers) {
  if (layers.empty() || layers.front().inputPrecision() == Precision::single) return false;
  const LayerPlan* first = leavesOf(layers).front();
  return first->rules().table(*first).empty();
}

void setActivations(std::vector<LayerPlan>& layers, Precision precision) {
  for (LayerPlan& layer : layers) {
    layer.activations = precision;
    setActivations(layer.body, precision);
    setActivations(layer.shortcut, precision);
  }
}

} // namespace partita
