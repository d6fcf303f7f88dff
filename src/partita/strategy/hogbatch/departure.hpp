#pragma once

#include "partita/strategy/run_context.hpp"

namespace partita {

/// Takes workers out of what rank 0 knows of a run; `ranks`: those of the run so far. Their reports go to
/// `state.lost`. `strategy` is that of the run so far.
void leaveOut(const std::vector<int>& ranks, const StrategySection& strategy, const Communicator& world,
              MeetingState& state);

/// The section of a deck for the workers that are left.
StrategySection withoutWorkers(StrategySection strategy, const std::vector<int>& ranks);

} // namespace partita
