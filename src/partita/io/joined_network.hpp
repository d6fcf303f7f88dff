#pragma once

#include "partita/config/run_config.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace partita {

/// A tensor for other programs; row-major, single precision whatever this build computes in.
struct NamedTensor {
  std::string name; ///< "layer3.dense/weight"
  std::vector<std::int64_t> extents;
  std::vector<float> values;
};

/// One step of the joined network on x [samples, values]:
/// dense: y = x W^T + b, tensors weight [outputs, inputs] and, where it has one, bias [outputs];
/// activation: y = act(x);
/// reencode: y = softmax(x D^T) S, tensors decoder D [classes, width], the labels of the cut without their
/// mean over the temperature, and labels S [classes, width].
struct Operation {
  enum class Kind { dense, activation, reencode };

  Kind kind = Kind::dense;
  std::string name; ///< "layer3.dense", "layer3.relu", "cut0.reencode"
  Activation activation = Activation::identity;
  double slope = 0.0; ///< of leaky_relu
  std::vector<NamedTensor> tensors;
};

/// The network that the stages of a run make together, with all that another program needs to use it:
/// logits = operations((features - shift) * scale), features as the data files have them.
struct JoinedNetwork {
  std::int64_t inputs = 0, classes = 0;
  std::vector<float> shift, scale; ///< one value, or one a feature
  std::vector<Operation> operations;
  LossKind loss = LossKind::cross_entropy; ///< what the logits were trained by
  std::string deck, parameters_hash;
  std::string origin; ///< a line for people: who made the file, from what
};

} // namespace partita
