#pragma once

#include "partita/comm/shared_window.hpp"
#include "partita/comm/watchdog.hpp"
#include "partita/data/dataset.hpp"
#include "partita/strategy/local_stage.hpp"

namespace partita {

/// The deck without a thread that prepares batches if this would share a core with the rank's threads, which
/// costs time; on devices, the deck itself. Collective.
RunConfig withoutIdlePrefetch(RunConfig config, const Communicator& world);

/// The plans that follow from deck and data.
struct Plans {
  /// `node`: the ranks of `world` on this node. `learns`: the training set must fit the grid. `trained`: see
  /// loadData. Collective; throws AgreedError.
  Plans(const RunConfig& config, const Communicator& world, const Communicator& node, bool learns,
        const TrainedInput* trained);

  DataSets sets;
  Partition partition;
  GridPlan grid;
  std::shared_ptr<void> offload_room; ///< see StoredVector::takeRoom; null: nothing goes to files
};

/// The parts that every command on several ranks sets up. Collective; throws UserError on every rank.
struct Setup {
  /// For a run that trains; `scratch`: folder for files that vanish with it.
  Setup(const Communicator& world, const RunConfig& deck, const std::string& scratch)
      : Setup(world, deck, true, scratch, nullptr) {}
  /// For a trained network whose parameters are to be read.
  Setup(const Communicator& world, const RunConfig& deck, const TrainedInput& trained)
      : Setup(world, deck, false, "", &trained) {}
  /// First releases the reserved space: the stages would otherwise return the space of their vectors to it.
  ~Setup() { plans.offload_room.reset(); }

  template <class StagePointer>
  std::vector<StagePointer> stagePointers() const {
    std::vector<StagePointer> pointers;
    pointers.reserve(stages.size());
    for (const auto& local : stages) pointers.push_back(&local->stage);
    return pointers;
  }

  RunConfig config;  ///< effective
  Watchdog watchdog; ///< first for set-up, then for the run
  Plans plans;
  Grid grid;
  std::unique_ptr<SharedWindow> window; ///< for a model that ranks share; null: the strategy needs none
  std::vector<std::unique_ptr<LocalStage>> stages;

 private:
  Setup(const Communicator& world, const RunConfig& deck, bool learns, const std::string& scratch,
        const TrainedInput* trained);
};

} // namespace partita
