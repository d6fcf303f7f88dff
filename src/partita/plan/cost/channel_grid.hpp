#pragma once

#include "partita/plan/cost/collectives.hpp"
#include "partita/plan/cost/layer_cost.hpp"

namespace partita {

/// How the ranks that share a layer divide its weights: by input channels times by output channels
/// (DiHydrogen's channel/filter parallelism). Activations stay divided by channel among all ranks, in the
/// same way in every layer whatever its grid, so that layers and residual sums need nothing else.
struct ChannelGrid {
  std::int64_t inputs = 1, outputs = 1;
};

/// Forward and backward pass of a layer: ranks with the same output channels gather the input and sum its
/// gradient, ranks with the same input channels sum the output and gather its gradient. `samples` are those
/// of one replica.
struct GridExchange {
  Messages gather, reduce_scatter;           ///< forward: of the input, of the output
  Messages gather_back, reduce_scatter_back; ///< backward: of the gradients of the output, of the input
};
GridExchange gridExchange(const LayerCost& layer, const ChannelGrid& grid, double samples);

/// The grid of `parts` ranks with the least time for these exchanges; inputs = parts is "stationary weights
/// by channel", outputs = parts by filter.
ChannelGrid bestGrid(const LayerCost& layer, std::int64_t parts, double samples, const Link& link);

} // namespace partita
