#include "partita/plan/effective.hpp"

#include "partita/plan/strategy_plan.hpp"

namespace partita {

RunConfig effective(RunConfig config) {
  planOf(config.strategy).normalise(config.strategy);
  return config;
}

} // namespace partita
