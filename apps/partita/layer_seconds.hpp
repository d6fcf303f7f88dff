#pragma once

#include "partita/core/types.hpp"
#include "partita/plan/cost/typical.hpp"
#include "partita/plan/layer_plan.hpp"

#include <vector>

namespace partita {

/// Seconds of the passes of a layer.
struct LayerSeconds {
  double forward = 0.0, backward = 0.0;
};

/// Times a stage of this single layer on this many samples of random numbers, after one pass of warm-up;
/// returns medians.
LayerSeconds timeLayer(const ExecSpace& space, const LayerPlan& layer, std::int64_t samples, int repeats);

/// Times the layers in turn, as in a training step: all forward, then all backward. The caches are
/// then in the same state as when the network trains. `which` selects the value that stands for the
/// repeated times of a pass.
std::vector<LayerSeconds> timeInTurn(const ExecSpace& space, const std::vector<LayerPlan>& layers,
                                     std::int64_t samples, int repeats, Typical which);

} // namespace partita
