#pragma once

#include "partita/config/run_config.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace partita {

/// What one layer does: `dense` is y = act(x W^T + b); `activation` is act(x) alone, the entrance of a stage
/// whose predecessor is matched before its activation.
enum class LayerType { dense, activation };

/// Shape and cost of one layer; all counts are for one sample.
struct LayerPlan {
  LayerType type = LayerType::dense;
  std::int64_t index = 0; ///< place in the whole network, whatever the cuts: names and seeds come from it
  std::int64_t inputs = 0, outputs = 0;
  Activation activation = Activation::identity;
  double slope = 0.0; ///< of leaky_relu
  bool bias = true;
  Initialisation initialisation = Initialisation::he;

  std::string name() const; ///< "layer3.dense"
  std::int64_t parameters() const;
  double forwardFlops() const; ///< multiply-adds of the matrix product count 2; element-wise work is left out
  double weightFlops() const;  ///< gradient of the weights
  double inputFlops() const;   ///< gradient of the input
  std::int64_t keptValues() const; ///< values kept for the backward pass besides the input
};

/// The layers of a deck with all sizes resolved: repeats unrolled, the last layer as wide as there are
/// classes. Throws UserError where a size is missing or does not fit.
std::vector<LayerPlan> planNetwork(const NetworkSection& network, std::int64_t inputs, std::int64_t classes);

std::int64_t countParameters(const std::vector<LayerPlan>& layers);

} // namespace partita
