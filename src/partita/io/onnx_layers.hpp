#pragma once

#include "partita/config/layer_table.hpp"
#include "partita/io/onnx_graph.hpp"

namespace partita {

/// Adds the nodes of a layer: takes the current value of the graph and leaves the result there as `output`.
/// The tensors of the layer are in the graph already; the shape of the input is `layer.shape`.
using OnnxLayer = void (*)(OnnxGraph& graph, const Operation& layer, const std::string& output);

/// The mapping of each type of layer; null where `LayerRules::step` has no operation.
const LayerTable<OnnxLayer>& onnxLayers();

} // namespace partita
