#pragma once

#include "partita/comm/watchdog.hpp"
#include "partita/data/dataset.hpp"
#include "partita/strategy/local_stage.hpp"

namespace partita {

/// What the deck and the data come to, before any rank talks to another.
struct Plans {
  /// `learns`: the training set has to go into the grid. `trained`: see loadData. Throws UserError.
  Plans(const RunConfig& config, const Communicator& world, bool learns, const TrainedInput* trained);

  DataSets sets;
  Partition partition;
  GridPlan grid;
};

/// The parts that every command on several ranks sets up. Collective; throws UserError on every rank.
struct Setup {
  /// For a run that learns; `scratch`: folder for files that vanish with it.
  Setup(const Communicator& world, const RunConfig& deck, const std::string& scratch)
      : Setup(world, deck, true, scratch, nullptr) {}
  /// For a network that has been trained, whose parameters are to be read.
  Setup(const Communicator& world, const RunConfig& deck, const TrainedInput& trained)
      : Setup(world, deck, false, "", &trained) {}

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

 private:
  Setup(const Communicator& world, const RunConfig& deck, bool learns, const std::string& scratch,
        const TrainedInput* trained);
};

} // namespace partita
