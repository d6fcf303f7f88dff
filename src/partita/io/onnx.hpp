#pragma once

#include "partita/io/joined_network.hpp"

namespace partita {

/// How our files begin: the version of the format, and the producer.
inline constexpr const char* onnx_mark = "\x08\x07\x12\x07partita";

/// Writes the network as an ONNX model (operator set 13): input `features` [batch, inputs], raw values as in
/// the data files; outputs `logits` [batch, classes], for tokens [batch, positions, classes], and, if the
/// network was trained by cross-entropy, `probabilities`. All values are float, even if the build computes in
/// double. The metadata contain the deck and the hash of the parameters. Throws UserError if the file cannot
/// be written or the network is too large. Source: onnx/onnx.proto and docs/Operators.md of ONNX 1.8.
void writeOnnx(const std::string& path, const JoinedNetwork& network);

} // namespace partita
