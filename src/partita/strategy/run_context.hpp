#pragma once

#include "partita/comm/shared_window.hpp"
#include "partita/data/dataset.hpp"
#include "partita/strategy/local_stage.hpp"
#include "partita/strategy/observer.hpp"
#include "partita/strategy/pipeline/schedule_trace.hpp"
#include "partita/strategy/step_control.hpp"
#include "partita/strategy/training_clock.hpp"

#include <string>

namespace partita {

/// What every strategy works on: the deck, this rank's place and stages, the data, the observer, the control
/// between steps, and the position to start from.
struct RunContext {
  const RunConfig& config;
  const Partition& partition;
  Grid& grid;
  const DataSets& sets;
  const std::vector<std::unique_ptr<LocalStage>>& stages; ///< of this rank
  Observer& observer;
  StepControl& control;
  TrainingClock& clock;
  RunLength length;
  Position start;                ///< the parameters are those of this position
  std::string scratch_directory; ///< for files that are removed when the run ends
  const SharedWindow* window =
      nullptr;                     ///< memory for a model that ranks share; null: the strategy needs none
  std::string decisions_file = {}; ///< of an asynchronous run; empty: none is written
  ScheduleTrace* trace = nullptr;  ///< records the operations of the first steps; null: no trace

  std::uint64_t seed() const { return static_cast<std::uint64_t>(config.run.seed); }
};

} // namespace partita
