#pragma once

#include "partita/core/types.hpp"
#include "partita/plan/layer_plan.hpp"

#include <vector>

namespace partita {

/// Seconds of the passes of a layer.
struct LayerSeconds {
  double forward = 0.0, backward = 0.0;
};

/// Times a stage of this single layer on so many samples of random numbers, after one pass of warm-up:
/// medians.
LayerSeconds timeLayer(const ExecSpace& space, const LayerPlan& layer, std::int64_t samples, int repeats);

/// Times the layers in turn, as in a training step: all forward, then all backward. So a layer finds in the
/// caches what it would find there in the network. Of the passes of a layer, those at `quantile` (0: the
/// shortest, 0.5: the median) count.
std::vector<LayerSeconds> timeInTurn(const ExecSpace& space, const std::vector<LayerPlan>& layers,
                                     std::int64_t samples, int repeats, double quantile);

} // namespace partita
