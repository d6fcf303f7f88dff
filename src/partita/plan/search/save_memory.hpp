#pragma once

#include "partita/config/run_config.hpp"

#include <cstdint>
#include <vector>

namespace partita {

/// How many layers a network has, with all repetitions: cuts count them.
std::int64_t unrolledLayers(const NetworkSection& network);

/// Is there a block or a residual group that does not yet recompute what is inside?
bool canRecompute(const NetworkSection& network);

/// The network whose blocks and residual groups recompute what is inside for the backward pass, as far as
/// `layers` says, which counts repetitions. Those that do it already go on. Repeated layers that differ
/// afterwards become entries of their own.
NetworkSection withRecomputation(const NetworkSection& network, const std::vector<bool>& layers);

/// Has the optimiser a state that may lie elsewhere, and lies it on the device?
bool canOffload(const RunConfig& config);

} // namespace partita
