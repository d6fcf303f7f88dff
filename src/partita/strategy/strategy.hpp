#pragma once

#include "partita/strategy/run_context.hpp"

#include <memory>

namespace partita {

/// How ranks train a network together. Constructed from a RunContext, which must outlive it; construction is
/// collective.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Trains from the position in the context to the end of the run. Returns false, on every rank alike, if
  /// the run ended early. Collective.
  virtual bool run(const ExecSpace& space) = 0;
};

/// Throws UserError if files that the strategy reads or writes outside the run directory cannot be used: to
/// be called before anything of an earlier run is changed. `samples`: of an epoch; `scratch`: the folder for
/// temporary files.
void checkFiles(const RunConfig& config, const RunLength& length, std::int64_t samples,
                const std::string& scratch);

/// The strategy that the deck of the context asks for; strategy/registry.cpp has one line for each.
std::unique_ptr<Strategy> makeStrategy(const RunContext& context);

} // namespace partita
