#include "partita/plan/network_plan.hpp"

#include "partita/config/user_error.hpp"

namespace partita {

std::string LayerPlan::name() const {
  return "layer" + std::to_string(index) + (type == LayerType::dense ? ".dense" : ".activation");
}

std::int64_t LayerPlan::parameters() const {
  return type == LayerType::dense ? inputs * outputs + (bias ? outputs : 0) : 0;
}

double LayerPlan::forwardFlops() const {
  return type == LayerType::dense ? 2.0 * static_cast<double>(inputs) * static_cast<double>(outputs) : 0.0;
}

double LayerPlan::weightFlops() const {
  return forwardFlops();
}
double LayerPlan::inputFlops() const {
  return forwardFlops();
}

std::int64_t LayerPlan::keptValues() const {
  // The derivative of every activation but gelu follows from the output.
  const bool needs_argument = type == LayerType::dense && activation == Activation::gelu;
  return needs_argument ? 2 * outputs : outputs;
}

std::vector<LayerPlan> planNetwork(const NetworkSection& network, std::int64_t inputs, std::int64_t classes) {
  std::vector<LayerPlan> layers;
  for (std::size_t entry = 0; entry < network.layers.size(); ++entry) {
    const LayerSpec& spec = network.layers[entry];
    const bool last_entry = entry + 1 == network.layers.size();
    for (std::int64_t copy = 0; copy < spec.repeat; ++copy) {
      const bool last = last_entry && copy + 1 == spec.repeat;
      LayerPlan layer;
      layer.index = static_cast<std::int64_t>(layers.size());
      layer.inputs = layers.empty() ? inputs : layers.back().outputs;
      layer.outputs = spec.units > 0 ? spec.units : last ? classes : 0;
      layer.activation = spec.activation;
      layer.slope = spec.slope;
      layer.bias = spec.bias;
      layer.initialisation = network.initialisation;
      if (layer.outputs == 0) {
        throw UserError("network/layers: entry " + std::to_string(entry + 1) +
                        " has no units; only the last layer may leave them to the number of classes");
      }
      layers.push_back(layer);
    }
  }
  if (layers.empty()) throw UserError("network/layers: there is no layer");
  if (layers.back().outputs != classes) {
    throw UserError("network/layers: the last layer has " + std::to_string(layers.back().outputs) +
                    " units, but the data have " + std::to_string(classes) + " classes; leave its units out");
  }
  if (layers.back().activation != Activation::identity) {
    throw UserError("network/layers: the last layer must have no activation, the loss brings its own");
  }
  return layers;
}

std::int64_t countParameters(const std::vector<LayerPlan>& layers) {
  std::int64_t sum = 0;
  for (const LayerPlan& layer : layers) sum += layer.parameters();
  return sum;
}

} // namespace partita
