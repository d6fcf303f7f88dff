#pragma once

#include "partita/plan/cost/cost_model.hpp"
#include "partita/strategy/run_context.hpp"
#include "partita/strategy/run_forecast.hpp"

#include <memory>

namespace partita {

/// How ranks train a network together. Constructed from a RunContext, which must outlive it; construction is
/// collective.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Trains from the position in the context to the end of the run. Returns false, on every rank alike, if
  /// the run ended early. Collective.
  virtual bool run(const ExecSpace& space) = 0;
};

/// A run that continues from a checkpoint, and its log of decisions so far.
struct LoggedRun {
  std::string log;             ///< the file
  std::string checkpoint;      ///< the file, for messages
  std::string deck;            ///< of the checkpoint, as text
  std::vector<double> numbers; ///< of the strategy, in the checkpoint
  int replicas = 1;
};

/// What a run asks of a kind of strategy besides its training. One stateless object per kind; `rulesOf` finds
/// it.
class StrategyRules {
 public:
  virtual ~StrategyRules() = default;

  /// The strategy that the deck of the context asks for. Collective.
  virtual std::unique_ptr<Strategy> make(const RunContext& context) const = 0;

  /// Where it makes files outside the run directory: the key of the deck, and the folder. `scratch`: the
  /// folder for temporary files.
  virtual std::vector<std::pair<std::string, std::string>> folders(const RunConfig&, const RunLength&,
                                                                   const std::string& scratch) const {
    (void)scratch;
    return {};
  }
  /// Throws UserError if files that it reads or writes outside the run directory cannot be used: to be called
  /// before anything of an earlier run is changed. `samples`: of an epoch; `scratch`: see `folders`.
  virtual void checkFiles(const RunConfig&, const RunLength&, std::int64_t samples,
                          const std::string& scratch) const {
    (void)samples, (void)scratch;
  }
  /// Makes the files for values that do not fit in memory, with all the space that the stages of this rank
  /// need: to be called after `checkFiles`. Throws UserError like it, and SystemError if a disk has no room.
  virtual ActivationFiles takeFiles(const RunConfig&, const RunLength&, std::int64_t samples,
                                    const std::string& scratch,
                                    const std::vector<std::unique_ptr<LocalStage>>& stages) const {
    (void)samples, (void)scratch, (void)stages;
    return {};
  }
  /// Throws UserError unless the log has all decisions before the checkpoint, and the run with the effective
  /// deck `config` can go on with it. Changes nothing.
  virtual void checkLog(const RunConfig&, const LoggedRun&) const {}

  /// Makes the run of a deck repeat the decisions in a log. Throws UserError if it cannot be read. Only for
  /// strategies that make decisions.
  virtual void repeat(RunConfig& deck, const std::string& log) const;

  /// What to expect of a run on this many ranks of a cluster, at least two; null: its ranks are in step, and
  /// the cost model predicts a step. `deck`: the name of its file without folder and suffix, "" if unknown.
  virtual std::shared_ptr<const RunForecast> forecast(const RunConfig&, const CostTask&,
                                                      const std::string& deck, std::int64_t ranks,
                                                      const Cluster&) const {
    (void)deck, (void)ranks;
    return nullptr;
  }

  /// Bytes of memory that all ranks of a node share. 0: it needs none.
  virtual std::int64_t windowBytes(const RunConfig&, const Partition&, int ranks) const {
    (void)ranks;
    return 0;
  }
  /// Bytes of a rank without a stage; `elsewhere`: number of ranks on other nodes.
  virtual std::int64_t bytesWithoutStage(const RunConfig&, const Partition&, int ranks, int elsewhere) const {
    (void)ranks, (void)elsewhere;
    return 0;
  }
  /// The part of the shared memory in which the stage of this rank lies; nothing if the rank has its own.
  /// `window` may be null. Throws UserError if the rank cannot use it.
  virtual GivenMemory givenMemory(const RunConfig&, const Partition&, const Grid&,
                                  const SharedWindow* window) const {
    (void)window;
    return {};
  }

  /// Removes lost ranks from what rank 0 knows about a run, and adds their reports to `state.lost`. `ranks`
  /// and `strategy` are as before the loss. Only for strategies that tolerate losses.
  virtual void leaveOut(const std::vector<int>& ranks, const StrategySection& strategy,
                        const Communicator& world, MeetingState& state) const;
  /// The section of a deck for the remaining ranks.
  virtual StrategySection withoutRanks(const StrategySection& strategy, const std::vector<int>& ranks) const;
};

/// strategy/registry.cpp has one line for each kind.
const StrategyRules& rulesOf(const StrategySection& section);

} // namespace partita
