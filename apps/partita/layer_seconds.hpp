#pragma once

#include "partita/core/types.hpp"
#include "partita/plan/layer_plan.hpp"

namespace partita {

/// Seconds of the passes of a layer: medians.
struct LayerSeconds {
  double forward = 0.0, backward = 0.0;
};

/// Times a stage of this single layer on so many samples of random numbers, after one pass of warm-up.
LayerSeconds timeLayer(const ExecSpace& space, const LayerPlan& layer, std::int64_t samples, int repeats);

} // namespace partita
