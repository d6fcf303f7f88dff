#pragma once

#include "partita/plan/cost/kernel_shape.hpp"
#include "partita/plan/layer_rules.hpp"

#include <vector>

namespace partita {

inline double asReal(std::int64_t value) {
  return static_cast<double>(value);
}

/// A layer as the cost model sees it. Groups are replaced by the layers inside, and by a row for the sum of a
/// residual group. Counts are per sample, and real numbers, because they are only multiplied.
struct LayerCost {
  std::string name;       ///< "layer3.1.conv2d"
  std::int64_t index = 0; ///< of the cuttable layer that it is or belongs to
  LayerWork work = LayerWork::elementwise;
  bool in_shortcut = false; ///< of a residual group
  bool sum = false;         ///< adds the two branches of a residual group
  bool in_place = false;    ///< its output may replace its input in memory
  Shape in, out;
  std::optional<WindowPlan> windows{};

  double inputs = 0.0, outputs = 0.0; ///< items: |x| and |y|
  double weights = 0.0;               ///< parameters in tensors of two or more extents: |w|
  double vectors = 0.0;               ///< the other parameters: biases, factors of norms
  double macs = 0.0;                  ///< multiply-adds of the forward pass
  double authors_flops = 0.0;         ///< ParaDL's estimate for a training step: 2 f + |w|
  double activation_flops = 0.0;      ///< the same of its activation
  double forward_flops = 0.0, weight_flops = 0.0, input_flops = 0.0; ///< as in LayerPlan
  KernelShape kernel{};                                              ///< of a layer; not of a sum
  double again = 0.0;          ///< how often a training pass repeats its forward pass
  bool input_gradient = false; ///< does a training pass compute the gradient of its input?
  bool of_pass = false;        ///< has statistics over the samples of a pass

  double parameters() const { return weights + vectors; }
  double channels() const; ///< of the input; for vectors and sequences, values per position
  double filters() const;  ///< the same of the output
  bool trained() const { return parameters() > 0.0; }
};

/// The rows of a network, in the order of its layers; inside a residual group the shortcut follows the body,
/// and the sum is the last row.
std::vector<LayerCost> layerCosts(const std::vector<LayerPlan>& layers);

/// The sum of a field over rows.
double sumOf(const std::vector<LayerCost>& layers, double LayerCost::*field);

} // namespace partita
