#pragma once

#include "partita/config/run_config.hpp"

namespace partita {

/// The deck as strategies see it: what has no effect under the one that runs is reset.
RunConfig effective(RunConfig config);

} // namespace partita
