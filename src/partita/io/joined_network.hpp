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

/// One step of the joined network on x [samples, values] or [samples, channels, places...]:
/// dense: y = x W^T + b, tensors weight [outputs, inputs] and, where it has one, bias [outputs];
/// convolution, pools: as the ONNX operators, with their attributes as `settings`;
/// batch_norm: y = scale (x - mean) / sqrt(variance + epsilon) + shift, tensors of these names [channels];
/// reshape: to the extents `shape` behind the first axis, which takes the rest: a sample, or a position;
/// embedding: tokens [samples, positions] -> rows of the tensor weight [tokens, width], plus where there is
/// one the tensor position [positions, width]; layer_norm, rms_norm: y = weight (x - mean) / sqrt(variance +
/// epsilon) + bias over the last axis, the latter without mean and bias; attention: x [samples, positions,
/// width] as `shape` says, causal, setting `heads`; tensors qkv_weight [3 width, width], out_weight [width,
/// width] and where it has them qkv_bias and out_bias; activation: y = act(x); branch: x is put on a stack;
/// swap: x and the top of the stack change places; add: y = x + the top, which is taken off; reencode: y =
/// softmax(x D^T) S, tensors decoder D [classes, width], the labels of the cut without their mean over the
/// temperature, and labels S [classes, width].
struct Operation {
  enum class Kind {
    dense,
    activation,
    reencode,
    convolution,
    max_pool,
    average_pool,
    global_average_pool,
    batch_norm,
    embedding,
    layer_norm,
    rms_norm,
    attention,
    reshape,
    branch,
    swap,
    add
  };
  struct Setting {
    std::string name; ///< as ONNX calls it: "strides"
    std::vector<std::int64_t> values;
  };

  Kind kind = Kind::dense;
  std::string name; ///< "layer3.dense", "layer3.relu", "cut0.reencode"
  Activation activation = Activation::identity;
  double slope = 0.0;   ///< of leaky_relu
  double epsilon = 0.0; ///< of norms
  std::string tied{};   ///< dense: name of the embedding's tensor that is its weight
  std::vector<std::int64_t> shape{};
  std::vector<Setting> settings{};
  std::vector<NamedTensor> tensors{};
};

/// The network that the stages of a run make together, with all that another program needs to use it:
/// logits = operations((features - shift) * scale), features as the data files have them.
struct JoinedNetwork {
  std::int64_t inputs = 0, classes = 0, parameters = 0;
  std::int64_t positions = 1;      ///< logits a sample
  std::vector<float> shift, scale; ///< one value, or one a feature
  std::vector<Operation> operations;
  LossKind loss = LossKind::cross_entropy; ///< what the logits were trained by
  std::string deck, parameters_hash;
  std::string origin; ///< a line for people: who made the file, from what
};

} // namespace partita
