#pragma once

#include "partita/io/joined_network.hpp"

namespace partita {

/// Writes the network as an ONNX model (operator set 13): input `features` [batch, inputs], raw values as the
/// data files have them; outputs `logits` [batch, classes], of tokens [batch, positions, classes], and,
/// where the network was trained by cross-entropy, `probabilities`. All in float, also from a build that
/// computes in double. The deck and the hash of the parameters are metadata. Throws UserError where the file
/// cannot be written or the network is too large. Source: onnx/onnx.proto and docs/Operators.md of ONNX 1.8.
void writeOnnx(const std::string& path, const JoinedNetwork& network);

} // namespace partita
