#pragma once

#include "partita/core/provenance.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/strategy/run_context.hpp"
#include "partita/train/checkpoint_job.hpp"
#include "partita/train/forecast.hpp"
#include "partita/train/restart.hpp"
#include "partita/train/run_directory.hpp"
#include "partita/train/setup.hpp"

#include <algorithm>
#include <memory>
#include <optional>

namespace partita {

/// A run that continues with the remaining ranks when others are lost.
struct Continued {
  const RunConfig& deck;       ///< for all ranks of the beginning
  LossWatch* losses = nullptr; ///< null: a rank that dies ends the job
  MeetingState state = {};
  bool prepared = false; ///< the run directory
  std::string file = {}; ///< to begin from, by its name in the prepared directory
  std::shared_ptr<OwnCheckpoints> checkpoints = std::make_shared<OwnCheckpoints>(); ///< on rank 0
};

/// A run that is ready to train: its plans and stages, where it begins, and a run directory that is prepared
/// for it.
struct BegunRun {
  /// `deck`: for the ranks of `world`. The run begins at `start`, or at the last meeting of
  /// `continued`. `of_banner`: what is known about build and machine. Collective; throws UserError
  /// on every rank.
  BegunRun(const ExecSpace& space, const Communicator& world, const RunConfig& deck,
           const RunDirectory& directory, const RunStart& start, Provenance of_banner, Continued& continued);

  std::int64_t firstStep() const { return length.runStep(restart.start); } ///< of the run
  /// The last step whose rows the tables keep. It is before the first one of this run if epochs have more
  /// steps than in the run that it continues.
  std::int64_t lastKeptStep() const {
    const std::int64_t found = restart.found ? restart.found->run_step : -1;
    return found < 0 ? firstStep() : std::min(firstStep(), found);
  }
  std::int64_t samples() const { return static_cast<std::int64_t>(setup.plans.sets.train.size()); }

  Setup setup; ///< the first to be made and the last to end: its watchdog waits for all ranks
  Provenance provenance;
  std::optional<StepCost> predicted;
  std::shared_ptr<const RunForecast> forecast;
  RunLength length;
  Restart restart;
  ActivationFiles activation_files;

 private:
  void predict(std::int64_t ranks_on_node);
  void checkContinuedLog(const RunDirectory& directory) const;
  void planBeginning(const Communicator& world, const RunConfig& deck, const std::string& file,
                     const MeetingState& state);
  void readValues(const Communicator& world, SharedRunFile& file);
  /// Does the run take over all steps of an earlier one?
  bool sameCourse() const { return restart.keeps_state && firstStep() >= restart.found->run_step; }
  void checkDirectory(const Communicator& world, const RunDirectory& directory);
  TakenOver takenOver() const;
};

} // namespace partita
