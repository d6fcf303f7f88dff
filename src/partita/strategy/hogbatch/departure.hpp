#pragma once

#include "partita/strategy/run_context.hpp"

namespace partita {

/// Removes lost workers from what rank 0 knows about a run, and adds their reports to `state.lost`. `ranks`
/// and `strategy` are as before the loss.
void leaveWorkersOut(const std::vector<int>& ranks, const StrategySection& strategy,
                     const Communicator& world, MeetingState& state);

/// The section of a deck for the remaining workers.
StrategySection withoutWorkers(StrategySection strategy, const std::vector<int>& ranks);

} // namespace partita
