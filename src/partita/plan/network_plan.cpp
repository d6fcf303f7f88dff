#include "partita/plan/network_plan.hpp"

#include "partita/config/layer_types.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/layers/table.hpp"
#include "partita/plan/window_plan.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

namespace {

LayerPlan* firstLeaf(std::vector<LayerPlan>& layers) {
  if (layers.empty()) return nullptr;
  return layers.front().group() ? firstLeaf(layers.front().body) : &layers.front();
}

/// How the layers of a list are named and numbered.
struct ListPlace {
  std::string layers = "layer", key = "network/layers";
  std::int64_t first_number = 0;
  std::size_t repeated = 0; ///< entries that the user has not written, before the others

  std::string entry(std::size_t index) const {
    if (index < repeated) return "strategy/head_depth: repeated layer " + std::to_string(index + 1);
    return key + "[" + std::to_string(index - repeated) + "]"; // as readers of decks say
  }
};

class Planner {
 public:
  Planner(const NetworkSection& network, std::int64_t classes, ListPlace place = {})
      : _network(network), _classes(classes), _place(std::move(place)), _number(_place.first_number) {}

  std::vector<LayerPlan> planAll(const Shape& input) {
    std::vector<LayerPlan> layers;
    const auto& entries = _network.layers;
    for (std::size_t entry = 0; entry < entries.size(); ++entry) {
      const std::string where = _place.entry(entry);
      for (std::int64_t copy = 0; copy < entries[entry].repeat; ++copy) {
        const bool last = entry + 1 == entries.size() && copy + 1 == entries[entry].repeat;
        _index = layers.size();
        layers.push_back(plan(entries[entry], layers.empty() ? input : layers.back().out,
                              _place.layers + std::to_string(_index), where, last));
      }
    }
    return layers;
  }

 private:
  LayerPlan plan(const LayerSpec& spec, const Shape& input, const std::string& place,
                 const std::string& entry, bool last) {
    LayerPlan layer;
    layer.spec = spec;
    layer.spec.repeat = 1;
    layer.place = place;
    layer.entry = entry;
    layer.index = _index;
    layer.in = input;
    layer.initialisation = _network.initialisation;
    layer.classes = _classes;
    if (last) layer.rules().takeClasses(layer.spec, _classes);
    layer.body = planInside(spec.layers, input, place + ".", entry + "/layers", last);
    layer.shortcut = planInside(spec.shortcut, input, place + ".shortcut", entry + "/shortcut", false);
    layer.number = layer.group() ? 0 : _number++;
    layer.out = layer.rules().output(layer);
    return layer;
  }

  std::vector<LayerPlan> planInside(const std::vector<LayerSpec>& specs, const Shape& input,
                                    const std::string& place, const std::string& entry, bool last) {
    std::vector<LayerPlan> layers;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      for (std::int64_t copy = 0; copy < specs[i].repeat; ++copy) {
        const bool last_inside = last && i + 1 == specs.size() && copy + 1 == specs[i].repeat;
        layers.push_back(plan(specs[i], layers.empty() ? input : layers.back().out,
                              place + std::to_string(layers.size()), entry + "[" + std::to_string(i) + "]",
                              last_inside));
      }
    }
    return layers;
  }

  const NetworkSection& _network;
  std::int64_t _classes;
  ListPlace _place;
  std::int64_t _index = 0, _number;
};

/// Marks the embedding whose table a dense layer shares.
void tieToEmbedding(std::vector<LayerPlan>& layers) {
  LayerPlan* embedding = firstLeaf(layers);
  for (const LayerPlan* leaf : leavesOf(layers)) {
    if (!leaf->rules().tied(*leaf)) continue;
    const Shape table = embedding->rules().table(*embedding);
    if (table.empty()) throw UserError(leaf->entry + " is tied, but the network has no embedding");
    if (table != Shape{leaf->out.back(), leaf->in.back()}) {
      throw UserError(leaf->entry + ": a tied layer needs as many units as there are tokens, " +
                      std::to_string(table[0]) + ", and as many inputs as the embedding is wide, " +
                      std::to_string(table[1]));
    }
    if (embedding->shared) throw UserError(leaf->entry + " is tied, but an earlier layer is tied already");
    embedding->shared = true;
  }
}

/// Not in integers, which the product might exceed.
template <class Extents>
double productOf(const Extents& extents) {
  double product = 1.0;
  for (const std::int64_t extent : extents) product *= static_cast<double>(extent);
  return product;
}

/// What all windows of a layer see.
double seenValues(const LayerPlan& leaf) {
  const std::optional<WindowPlan> windows = leaf.rules().windows(leaf);
  return windows ? static_cast<double>(leaf.in.front()) * productOf(windows->kernel) * productOf(windows->out)
                 : 0.0;
}

/// Whether the last layer of a network would be as wide as there are classes if its units were removed.
bool takesUnits(const LayerSpec& last) {
  if (last.repeat > 1) return false;
  const LayerType& type = layerTypes().at(last.type);
  if (type.role == LayerRole::row) return !last.layers.empty() && takesUnits(last.layers.back());
  LayerSpec spec = last;
  const std::vector<Parameter> keys = describe(spec).parameters;
  return std::any_of(keys.begin(), keys.end(),
                     [](const Parameter& key) { return key.required == Required::but_last; });
}

/// Beyond this, the byte counts of a stage and of a batch would overflow their integer type.
void checkSize(const std::vector<LayerPlan>& layers) {
  constexpr double most_parameters = 1e15, most_values = 1e11, most_seen = 1e15;
  double parameters = 0.0, values = 0.0;
  for (const LayerPlan* leaf : leavesOf(layers)) {
    for (const ParameterShape& shape : leaf->parameterShapes()) parameters += productOf(shape.extents);
    values += std::fabs(productOf(leaf->out)); // negative where a layer after such a large one overflows
    if (seenValues(*leaf) > most_seen)
      throw UserError(leaf->entry + ": its windows would see more than 10^15 values per sample");
  }
  if (parameters > most_parameters)
    throw UserError("network/layers: the network would have more than 10^15 parameters");
  if (values > most_values)
    throw UserError("network/layers: the layers would have more than 10^11 outputs per sample");
}

/// The last layer of a network is not as wide as there are classes.
[[noreturn]] void refuseWidth(const LayerSpec& last, std::int64_t width, std::int64_t classes) {
  if (takesUnits(last))
    throw UserError("network/layers: the last layer has " + std::to_string(width) +
                    " units, but the data have " + std::to_string(classes) + " classes; remove its units");
  throw UserError("network/layers: the last layer, of type '" + last.type + "', gives " +
                  std::to_string(width) + " values, but the data have " + std::to_string(classes) +
                  " classes; add { type = \"dense\" }");
}

} // namespace

std::vector<LayerPlan> planNetwork(const NetworkSection& network, const Shape& input, std::int64_t classes) {
  std::vector<LayerPlan> layers = Planner(network, classes).planAll(input);
  tieToEmbedding(layers);
  if (layers.empty()) throw UserError("network/layers: the network has no layers");
  checkSize(layers);
  const Shape& out = layers.back().out;
  const std::int64_t width = isSequence(out) ? out[1] : valuesOf(out);
  if (width != classes) refuseWidth(network.layers.back(), width, classes);
  if (!layoutOf(out).trivial()) // or the order in memory would number the classes
    throw UserError("network/layers: the output of the last layer, " + toText(out) +
                    ", is an image; add a dense layer");
  const LayerPlan* last = &layers.back();
  while (last->group() && last->spec.activation == Activation::identity) last = &last->body.back();
  if (last->spec.activation != Activation::identity) {
    throw UserError("network/layers: the last layer must have no activation, because the loss includes one");
  }
  return layers;
}

namespace {

constexpr std::int64_t numbers_per_head = 1000, first_head = 1000 * numbers_per_head, decoder_number = 900;

/// Layers on the output of `last` that are not part of the network.
std::vector<LayerPlan> planBeside(const std::vector<LayerSpec>& layers, const LayerPlan& last,
                                  ListPlace place, std::int64_t number) {
  place.layers = head_place + std::to_string(last.index) + "." + place.layers;
  place.first_number = first_head + last.index * numbers_per_head + number;
  const NetworkSection section{layers, last.initialisation};
  std::vector<LayerPlan> plans = Planner(section, last.classes, place).planAll(last.out);
  for (LayerPlan& plan : plans) plan.index = last.index;
  return plans;
}

} // namespace

std::vector<LayerPlan> planHeadLayers(const std::vector<LayerSpec>& layers, std::int64_t repeated,
                                      const LayerPlan& last) {
  return planBeside(layers, last, {"", "strategy/head", 0, static_cast<std::size_t>(repeated)}, 0);
}

std::vector<LayerPlan> planDecoder(const LayerSpec& layer, const LayerPlan& last) {
  return planBeside({layer}, last, {"decoder", "strategy/reconstruct"}, decoder_number);
}

std::vector<LayerPlan> planHead(std::vector<LayerSpec> layers, std::int64_t repeated, const LayerPlan& last) {
  LayerSpec labels;
  labels.dense.units = last.classes;
  labels.dense.bias = false;
  layers.push_back(labels);
  return planHeadLayers(layers, repeated, last);
}

} // namespace partita
