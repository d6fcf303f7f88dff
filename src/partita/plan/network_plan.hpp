#pragma once

#include "partita/plan/layer_plan.hpp"

namespace partita {

/// The layers of a deck with all sizes resolved: repeats are unrolled, and the width of the last layer is the
/// number of classes. `input`: extents of a sample. Throws UserError if a size is missing or does not fit.
std::vector<LayerPlan> planNetwork(const NetworkSection& network, const Shape& input, std::int64_t classes);

/// The names of layers in heads begin with this and the number of the layer before the cut: "head2.0.dense".
constexpr const char* head_place = "head";
inline bool isOfHead(const std::string& layer_name) {
  return layer_name.rfind(head_place, 0) == 0;
}

/// `layers` in the head of a stage that ends with `last`; the first ones are `repeated` from the network.
/// Throws UserError if a layer does not fit.
std::vector<LayerPlan> planHeadLayers(const std::vector<LayerSpec>& layers, std::int64_t repeated,
                                      const LayerPlan& last);

/// The layer with which a stage that ends with `last` reconstructs its input.
std::vector<LayerPlan> planDecoder(const LayerSpec& layer, const LayerPlan& last);

/// The head of a stage that ends with `last`: `layers`, followed by a dense layer without bias to one value
/// per class (and per position of a sequence), whose weights are the learned labels. Throws UserError if a
/// layer does not fit.
std::vector<LayerPlan> planHead(std::vector<LayerSpec> layers, std::int64_t repeated, const LayerPlan& last);

} // namespace partita
