#pragma once

#include "partita/comm/message_path.hpp"
#include "partita/config/run_config.hpp"
#include "partita/strategy/evaluation.hpp"
#include "partita/strategy/hogbatch/run_state.hpp"
#include "partita/strategy/run_context.hpp"

#include <functional>
#include <string>
#include <vector>

namespace partita::test {

/// Overrides of a deck: "section/key=value". Later ones take precedence.
using Overrides = std::vector<std::string>;
Overrides operator+(Overrides first, const Overrides& second);

/// 600 characters of 12 x 12 pixels, 15 steps per epoch, 2 epochs, 6 layers of 32 units; a few milliseconds
/// of work.
RunConfig smallDeck(const Overrides& overrides = {});

/// Discards all reports of the strategies.
class SilentObserver : public Observer {
 public:
  void onStep(const StepReport&) override {}
  void onEvaluation(const EvaluationReport&) override {}
};

/// A run on the ranks of one communicator, assembled as in the program. The constructor and all functions are
/// collective.
class SmallRun {
 public:
  /// Assigns the stages to ranks; empty: as the strategy does.
  using Deal = std::function<GridPlan(const Partition& partition, int ranks)>;
  SmallRun(const Communicator& ranks, const RunConfig& deck, const Deal& deal = {});

  SmallRun& train() { return train(_control); } ///< includes the recovery, if the deck asks for one
  SmallRun& train(StepControl& control);
  std::string hash() const; ///< of all parameters, on every rank
  Evaluation evaluate();
  std::vector<Real> ownParameters() const; ///< of the stages on this rank, in layer order

  RunConfig config;
  DataSets sets;
  Partition partition;
  Grid grid;
  std::unique_ptr<SharedWindow> window; ///< null: the strategy needs none
  std::vector<std::unique_ptr<LocalStage>> stages;
  std::string decisions_file; ///< empty: none
  HogbatchState workers;      ///< after a run of workers at their own pace, on rank 0
  std::int64_t most_live = 0; ///< maximum number of microbatches held by this rank in a pipeline

 private:
  SilentObserver _observer;
  StepControl _control;
};

/// All ranks of the job, and their number.
const Communicator& everyone();
/// Groups of `ranks` neighbouring ranks; each makes the same run, so that all ranks can compare results.
Communicator groupOf(int ranks);
/// Trains on the first `ranks` ranks and returns the hash of the parameters, on all ranks.
std::string trainedHash(int ranks, const Overrides& overrides);
/// The paths of messages, or of reductions, for values of the device: `staged` alone if MPI cannot take them
/// where they are.
std::vector<MessagePath> usablePaths(MessagePath MessagePaths::*purpose);

} // namespace partita::test
