#pragma once

#include "partita/io/onnx_graph.hpp"

namespace partita {

/// Layers of sequences, of which the operators of set 13 are only parts. Each takes the current value of the
/// graph and leaves its result there as `output`; tensors of the operation are in the graph already.

/// [batch, positions] tokens -> [batch, positions, width].
void addEmbedding(OnnxGraph& graph, const Operation& operation, const std::string& output);

/// layer_norm or rms_norm over the last axis.
void addNorm(OnnxGraph& graph, const Operation& operation, const std::string& output);

/// [batch, positions, width] -> the same; positions see themselves and those in front.
void addAttention(OnnxGraph& graph, const Operation& operation, const std::string& output);

} // namespace partita
