#pragma once

#include "partita/config/run_config.hpp"
#include "partita/plan/layer_rules.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace partita {

/// A tensor for other programs: row-major, in single precision whatever precision this build uses.
struct NamedTensor {
  std::string name; ///< "layer3.dense/weight"
  std::vector<std::int64_t> extents;
  std::vector<float> values;
};

/// One step of the joined network on x [samples, values] or [samples, channels, places...]:
/// - layer: what layers of `type` do, see docs/export.md; `settings` and `tensors` are all it needs
/// - activation: y = act(x)
/// - reshape: to the extents `shape` after the first axis, which takes the rest (samples or positions)
/// - branch: pushes x onto a stack; swap: exchanges x and the top of the stack; add: y = x + the popped top
/// - exit: adds weight * log softmax(x) to the sum of exits, which begins with 0; then x is the popped top
/// - sum: x = the sum of exits
/// - reencode: y = softmax(x D^T) S, tensors decoder D [classes, width], which is the centred labels of the
///   cut divided by the temperature, and labels S [classes, width]
struct Operation {
  enum class Kind { layer, activation, reshape, branch, swap, add, exit, sum, reencode };

  Kind kind = Kind::layer;
  std::string name;           ///< "layer3.dense", "layer3.relu", "cut0.reencode"
  std::string type{}, word{}; ///< of a layer: as in decks, "conv2d", and as a step, "convolution"
  Activation activation = Activation::identity;
  double slope = 0.0;                ///< of leaky_relu
  double weight = 1.0;               ///< of an exit
  std::string tied{};                ///< name of the embedding's tensor that is used as the weight
  std::vector<std::int64_t> shape{}; ///< of a layer: the shape of its input
  std::vector<LayerStep::Setting> settings{};
  std::vector<NamedTensor> tensors{};

  /// Throws std::logic_error if there is no such setting.
  const LayerStep::Setting& setting(const std::string& wanted) const {
    for (const LayerStep::Setting& each : settings)
      if (each.name == wanted) return each;
    throw std::logic_error(name + " has no setting '" + wanted + "'");
  }
};

/// The network that the stages of a run form together, with everything that another program needs to use it:
/// logits = operations((features - shift) * scale), features as the data files have them.
struct JoinedNetwork {
  std::int64_t inputs = 0, classes = 0, parameters = 0;
  Shape outputs;                   ///< of a sample's logits: {classes}, for tokens {positions, classes}
  bool tokens = false;             ///< are the features tokens, which are not standardised?
  std::vector<float> shift, scale; ///< one value, or one per feature
  std::vector<std::int64_t> class_labels; ///< of classes 0, 1, ... in the data files; empty: the same numbers
  std::vector<Operation> operations;
  LossKind loss = LossKind::cross_entropy; ///< what the logits were trained with
  std::string deck, parameters_hash;
  std::string origin; ///< a line for readers: which program made the file, and from what
};

} // namespace partita
