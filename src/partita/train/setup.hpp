#pragma once

#include "partita/comm/watchdog.hpp"
#include "partita/data/dataset.hpp"
#include "partita/strategy/local_stage.hpp"

namespace partita {

/// What the deck and the data come to, before any rank talks to another.
struct Plans {
  /// `learns`: the training set has to go into the grid. Throws UserError.
  Plans(const RunConfig& config, const Communicator& world, bool learns);

  DataSets sets;
  Partition partition;
  GridPlan grid;
};

/// The parts that every command on several ranks sets up. Collective; throws UserError on every rank.
struct Setup {
  /// `scratch`: folder for files that vanish with the run, where it learns.
  Setup(const Communicator& world, const RunConfig& deck, bool learns, const std::string& scratch = "");

  template <class StagePointer>
  std::vector<StagePointer> stagePointers() const {
    std::vector<StagePointer> pointers;
    pointers.reserve(stages.size());
    for (const auto& local : stages) pointers.push_back(&local->stage);
    return pointers;
  }

  RunConfig config;                   ///< effective
  std::unique_ptr<Watchdog> watchdog; ///< first of the set-up, then of the run
  Plans plans;
  Grid grid;
  std::vector<std::unique_ptr<LocalStage>> stages;
};

} // namespace partita
