#pragma once

#include "partita/strategy/run_context.hpp"

#include <memory>

namespace partita {

/// How ranks train a network together. Made from a RunContext, which outlives it; collective.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Trains from where the context says to the end of the run. Returns false where the run was ended early,
  /// on every rank alike. Collective.
  virtual bool run(const ExecSpace& space) = 0;
};

/// The strategy that the deck of the context asks for; strategy/registry.cpp has one line for each.
std::unique_ptr<Strategy> makeStrategy(const RunContext& context);

} // namespace partita
