#pragma once

#include "partita/plan/layer_plan.hpp"

#include <string>
#include <vector>

namespace partita {

/// What the speed of a layer's kernels depends on, and how much work they do. Products are [rows, inputs *
/// window] x [inputs * window, outputs]; a convolution has a row per window, a sequence one per position.
struct KernelShape {
  std::string type;                              ///< of the layer, such as "conv2d"
  double rows = 1.0;                             ///< per sample
  double inputs = 0.0, outputs = 0.0;            ///< values of a row; of images, channels of a group
  double window = 1.0;                           ///< places that an output sees
  Effort forward{}, weights{}, input_gradient{}; ///< per sample
};

/// The shape of a layer that is not a group, or of a part's share of it.
KernelShape kernelShape(const LayerPlan& layer);

/// Numbers of samples at which the kernels of a batch are timed: all, one half, one quarter, ... rounded up,
/// down to 1 / shares of the batch or one sample.
std::vector<std::int64_t> timedSamples(std::int64_t batch, std::int64_t shares);

} // namespace partita
