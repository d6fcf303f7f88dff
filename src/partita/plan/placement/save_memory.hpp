#pragma once

#include "partita/config/run_config.hpp"

#include <cstdint>
#include <vector>

namespace partita {

/// The number of layers of a network with all repetitions, as cuts count them.
std::int64_t unrolledLayers(const NetworkSection& network);

/// Is there a block or a residual group that does not yet recompute its layers?
bool canRecompute(const NetworkSection& network);

/// The network with recomputation in the blocks and residual groups that `layers` selects; `layers` counts
/// repetitions. Groups that already recompute continue to do so. Repeated layers that then differ become
/// separate entries.
NetworkSection withRecomputation(const NetworkSection& network, const std::vector<bool>& layers);

/// Is the optimiser's state on the device, and could it be elsewhere?
bool canOffload(const RunConfig& config);

} // namespace partita
