#pragma once

#include "partita/config/run_config.hpp"

namespace partita {

/// The deck as strategies see it: `joint` is a pipeline of one stage; what only `sil` knows is off elsewhere.
RunConfig effective(RunConfig config);

} // namespace partita
