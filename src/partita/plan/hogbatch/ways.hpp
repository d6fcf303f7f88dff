#pragma once

#include "partita/config/names.hpp"
#include "partita/plan/hogbatch/virtual_clock.hpp"

#include <string>
#include <vector>

namespace partita {

/// Ways to use workers of unequal speed.
enum class WorkerUse { asynchronous, synchronous, alone };

template <>
const std::vector<std::string>& namesOf<WorkerUse>();

/// What a way achieves with its best batches, and the keys of a deck that give them.
struct UseForecast {
  double examples_per_second = 0.0;
  double progress_per_second = 0.0; ///< sum of the updates' factors on the learning rate
  std::vector<double> batches;      ///< examples of each worker at a time; 0: it does nothing
  bool own = false;                 ///< the deck itself gives it
  WorkerRule rule = WorkerRule::fixed;
  std::int64_t batch = 0;           ///< training/batch
  std::int64_t batch_shared = 0;    ///< strategy/batch_shared; 0: no shared worker, or in step
  std::vector<std::int64_t> speeds; ///< in step: strategy/speeds of those that work; empty: measured
};

/// Plays epochs, or only the beginning of each if they are long, until sizes have settled.
Course settledCourse(WorkerMix mix);
UseForecast useOf(const Course& course);

/// The best batches that a deck can give to asynchronous workers within the bounds of their groups: one for
/// all replica workers and one for all shared workers. They stay fixed, or they are the first ones of the
/// rule of `mix` if that changes batches.
UseForecast forecastAsynchronous(const WorkerMix& mix);
/// The best step of all workers, in which none exceeds the upper bound of its group. Workers that are too
/// slow to help get nothing.
UseForecast forecastInStep(const WorkerMix& mix);
/// The best fixed batch of one group by itself, within its bounds.
UseForecast forecastAlone(const WorkerMix& mix, std::size_t group);
/// The group that makes the most progress by itself.
UseForecast forecastBestAlone(const WorkerMix& mix);

} // namespace partita
