#pragma once

#include "partita/plan/layer_plan.hpp"

namespace partita {

/// A layer with matrix products computes the gradient of its input before those of its parameters if the
/// parts of the stage exchange the former next. They either add it up (`sum`), or send it in the exchange
/// right before the layer (`before`). The first message of a ring, or all messages of a halo, then travel
/// while the gradients of the parameters are computed.
enum class HiddenExchange { none, sum, before };
HiddenExchange hiddenExchange(const std::vector<LayerPlan>& layers, std::size_t index);

/// Scratch of consecutive layers in passes over `rows` samples: the most that one layer needs, with room for
/// what travels meanwhile.
std::int64_t workOfLayers(const std::vector<LayerPlan>& layers, std::int64_t rows);

} // namespace partita
