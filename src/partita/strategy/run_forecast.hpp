#pragma once

#include "partita/io/json.hpp"
#include "partita/strategy/observer.hpp"

#include <string>
#include <utility>
#include <vector>

namespace partita {

/// A forecast next to what has been measured.
struct ForecastCheck {
  std::string line;                                        ///< printed at the end of a run
  std::vector<std::pair<std::string, JsonObject>> entries; ///< of the summary
};

/// What to expect of a whole run, from a strategy whose ranks are not in step.
class RunForecast {
 public:
  virtual ~RunForecast() = default;

  virtual std::vector<std::string> lines() const = 0; ///< as text
  virtual JsonObject json() const = 0;
  /// Compares it with what the workers have done in a run over a training set of this many examples.
  virtual ForecastCheck compare(const WorkersSnapshot& done, std::int64_t examples) const = 0;
};

} // namespace partita
