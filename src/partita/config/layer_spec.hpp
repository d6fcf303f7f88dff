#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace partita {

enum class Activation { identity, relu, leaky_relu, gelu, tanh, sigmoid, silu };

/// One integer for all axes of a window, or one per axis, slowest first.
struct AxisSizes {
  std::vector<std::int64_t> values;
  bool same = false; ///< padding: enough to keep the extents, apart from the stride
  /// Padding on the other side; empty: the same. Decks cannot set it, but ranks that share a layer need it.
  std::vector<std::int64_t> after = {};

  std::int64_t at(std::size_t axis) const { return values.size() == 1 ? values[0] : values.at(axis); }
  bool operator==(const AxisSizes& other) const { return values == other.values && same == other.same; }
};

// The keys that only some layers have: one struct per family.

struct DenseKeys {
  std::int64_t units = 0; ///< 0 in the last layer: as many as there are classes
  bool bias = true;
  bool tied = false; ///< the weights are those of the embedding
};

struct EmbeddingKeys {
  std::int64_t width = 0; ///< values per token
  bool positions = false; ///< a learned vector for each position is added
};

struct AttentionKeys {
  std::int64_t heads = 1;
  bool bias = true;
};

struct DropoutKeys {
  double rate = 0.1; ///< fraction of the values set to 0
};

struct NormKeys {
  double epsilon = 1e-5; ///< added to the variance
};

struct BatchNormKeys {
  double epsilon = 1e-5; ///< added to the variance
  double momentum = 0.1; ///< weight of a batch in the running mean and variance
  bool replicas = false; ///< mean and variance over the batch of all replicas
};

struct GroupNormKeys {
  std::int64_t groups = 0; ///< of channels
  double epsilon = 1e-5;   ///< added to the variance
};

struct ConvolutionKeys {
  std::int64_t channels = 0; ///< of the output
  std::int64_t groups = 1;
  AxisSizes kernel{{3}}, stride{{1}}, padding{{0}}, dilation{{1}};
  bool bias = true;
};

struct PoolKeys {
  AxisSizes kernel{{2}}, stride{{0}}, padding{{0}}; ///< stride 0: the width of the window
};

/// One entry of `network/layers`, or a layer inside one: keys that many layers have, and those of each
/// family, of which only the keys of the layer's type have an effect.
struct LayerSpec {
  std::string type = "dense";
  std::int64_t repeat = 1;
  Activation activation = Activation::identity;
  double slope = 0.01; ///< leaky_relu

  std::vector<LayerSpec> layers;   ///< block, residual: in order
  std::vector<LayerSpec> shortcut; ///< residual: empty: the input itself
  bool recompute = false;          ///< block, residual: keep only the input for the backward pass

  DenseKeys dense;
  EmbeddingKeys embedding;
  AttentionKeys attention;
  DropoutKeys dropout;
  NormKeys norm; ///< layer-norm, rms-norm
  BatchNormKeys batch_norm;
  GroupNormKeys group_norm;
  ConvolutionKeys convolution;
  PoolKeys pool;
};

} // namespace partita
