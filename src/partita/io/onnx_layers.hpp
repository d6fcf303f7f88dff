#pragma once

#include "partita/config/layer_table.hpp"
#include "partita/io/onnx_graph.hpp"

namespace partita {

/// Adds the nodes of a layer, which take the current value of the graph and make the result the current value
/// under the name `output`. The tensors of the layer are already in the graph; the shape of the input is
/// `layer.shape`.
using OnnxLayer = void (*)(OnnxGraph& graph, const Operation& layer, const std::string& output);

/// The mapping of each type of layer; null if `LayerRules::step` has no operation.
const LayerTable<OnnxLayer>& onnxLayers();

} // namespace partita
