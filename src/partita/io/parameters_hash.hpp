#pragma once

#include "partita/comm/grid.hpp"
#include "partita/nn/stage.hpp"

#include <string>
#include <vector>

namespace partita {

/// SHA-256 over all parameters and statistics in layer order, the same whatever the grid. Collective; on rank
/// 0, elsewhere empty.
std::string hashParameters(const Grid& grid, const std::vector<const Stage*>& stages);

} // namespace partita
