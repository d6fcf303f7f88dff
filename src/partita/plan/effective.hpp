#pragma once

#include "partita/config/run_config.hpp"

namespace partita {

/// The deck as strategies see it: `joint` is one stage that learns the true labels, the same engine without
/// cuts.
RunConfig effective(RunConfig config);

} // namespace partita
