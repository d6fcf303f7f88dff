#pragma once

#include "partita/config/names.hpp"
#include "partita/plan/hogbatch/virtual_clock.hpp"

#include <string>
#include <utility>
#include <vector>

namespace partita {

/// Ways to use workers of unequal speed.
enum class WorkerUse { asynchronous, synchronous, alone };

template <>
const std::vector<std::string>& namesOf<WorkerUse>();

/// What a way achieves with its best batches.
struct UseForecast {
  double examples_per_second = 0.0;
  double progress_per_second = 0.0; ///< sum of the updates' factors on the learning rate
  std::vector<double> batches;      ///< examples of each worker at a time; 0: it does nothing
};

/// What to expect of a run.
struct HogbatchForecast {
  Course course;                 ///< by the rule of the deck, over enough epochs to settle
  double epoch_seconds = 0.0;    ///< of the whole training set, without evaluations
  double price_of_balance = 1.0; ///< time of an epoch over that with the first sizes; 1 in step
  UseForecast asynchronous;      ///< by the rule of the deck, or that of `at_own_pace` if it is synchronous
  UseForecast synchronous;       ///< all workers in step, with parts by speed
  UseForecast alone;             ///< the group that makes the most progress by itself
  WorkerUse best = WorkerUse::asynchronous;
  double gain = 1.0; ///< progress per second of the best way over that of the run

  const UseForecast& of(WorkerUse use) const;
};

/// Plays some epochs on the virtual clock, and compares other ways to use the workers. Progress is the sum
/// over updates of the factors on their learning rates: a fair measure as long as an update with twice the
/// rate does as much as two. A way counts as better than that of the deck if it gains 5 % or more.
/// `at_own_pace`: the same workers in groups by an asynchronous rule; `mix` itself if its rule is one.
HogbatchForecast forecastOf(const WorkerMix& mix, const WorkerMix& at_own_pace);

/// The best batches of one group by itself, within its bounds.
UseForecast forecastAlone(const WorkerMix& mix, std::size_t group);
/// The best step of all workers, in which none exceeds the upper bound of its group. Workers that are too
/// slow to help get nothing.
UseForecast forecastInStep(const WorkerMix& mix);

/// What a run has measured, in the terms of a forecast.
struct MeasuredUse {
  std::vector<double> shares; ///< of each worker in the updates
  double examples_per_second = 0.0;
  double staleness_mean = 0.0;
  double epoch_seconds = 0.0; ///< without evaluations
};
/// The same values of a forecast.
MeasuredUse expectedUse(const HogbatchForecast& forecast);

/// The forecast as text: a line for each worker, the sums, the price of balance, and which way is better.
std::vector<std::string> forecastLines(const WorkerMix& mix, const HogbatchForecast& forecast);
/// "predicted ... examples/s, measured ...: shares ...".
std::string comparisonLine(const MeasuredUse& predicted, const MeasuredUse& measured);

} // namespace partita
