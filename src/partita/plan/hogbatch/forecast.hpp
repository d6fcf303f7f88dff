#pragma once

#include "partita/plan/hogbatch/ways.hpp"

#include <string>
#include <utility>
#include <vector>

namespace partita {

/// What to expect of a run.
struct HogbatchForecast {
  Course course;                 ///< by the rule of the deck, over enough epochs to settle
  double epoch_seconds = 0.0;    ///< of the whole training set, without evaluations
  double price_of_balance = 1.0; ///< time of an epoch over that with the first sizes; 1 in step
  UseForecast asynchronous;      ///< each worker at its own pace
  UseForecast synchronous;       ///< all workers in step, with parts by speed
  UseForecast alone;             ///< the group that makes the most progress by itself
  WorkerUse best = WorkerUse::asynchronous;
  double gain = 1.0; ///< progress per second of the best way over that of the run

  const UseForecast& of(WorkerUse use) const;
};

/// Plays some epochs on the virtual clock, and compares all ways to use the workers, each with its best
/// batches. Progress is the sum over updates of the factors on their learning rates: a fair measure as long
/// as an update with twice the rate does as much as two. A way counts as better than the run if it gains 5 %
/// or more. `within_bounds`: the same workers in groups for an asynchronous rule, with the bounds of the deck
/// even if the rule of the deck does not use them.
HogbatchForecast forecastOf(const WorkerMix& mix, const WorkerMix& within_bounds);

/// What a run has measured, in the terms of a forecast.
struct MeasuredUse {
  std::vector<double> shares; ///< of each worker in the updates
  double examples_per_second = 0.0;
  double staleness_mean = 0.0;
  double epoch_seconds = 0.0; ///< without evaluations
};
/// The same values of a forecast.
MeasuredUse expectedUse(const HogbatchForecast& forecast);

/// What to change in the deck of `mix` for this way: "strategy/rule=fixed", "training/batch=512", ...
std::vector<std::string> deckChangesFor(const WorkerMix& mix, const UseForecast& way);
/// What to multiply `optimiser/learning_rate` by with these changes, so that an update of as many examples
/// has the same rate as before.
double rateChangeFor(const WorkerMix& mix, const UseForecast& way);
/// The forecast as text: a line for each worker, the sums, the price of balance, what each way achieves by
/// which changes, and which way is better.
std::vector<std::string> forecastLines(const WorkerMix& mix, const HogbatchForecast& forecast);
/// "predicted ... examples/s, measured ...: shares ...".
std::string comparisonLine(const MeasuredUse& predicted, const MeasuredUse& measured);

} // namespace partita
