#pragma once

#include "partita/config/run_config.hpp"

#include <cstdint>
#include <vector>

namespace partita {

/// How many layers a network has, with all repetitions: cuts count them.
std::int64_t unrolledLayers(const NetworkSection& network);

/// Is there a block or a residual group that does not yet recompute its layers?
bool canRecompute(const NetworkSection& network);

/// The network with recomputation in those blocks and residual groups that `layers` selects, which counts
/// repetitions. Groups that already recompute continue to do so. Repeated layers that differ afterwards
/// become separate entries.
NetworkSection withRecomputation(const NetworkSection& network, const std::vector<bool>& layers);

/// Does the optimiser have a state that is on the device and could be stored elsewhere?
bool canOffload(const RunConfig& config);

} // namespace partita
