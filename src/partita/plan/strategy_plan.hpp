#pragma once

#include "partita/config/run_config.hpp"
#include "partita/plan/grid_plan.hpp"
#include "partita/plan/parts/part_traffic.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/plan/stage_memory.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace partita {

/// What the banner says about a plan.
struct PlanNotes {
  std::vector<std::string> lines, warnings;
};

/// How a network computes once its stages are joined.
struct JoinedForm {
  bool reencodes = false;  ///< is the activation at a cut replaced by posterior x labels?
  bool adds_exits = false; ///< does it add up what its stages predict?
  bool fits_exits = false; ///< are the weights of this sum fitted after the training?
};

/// The ends of warnings about stages with a loss of their own.
struct StageAdvice {
  std::string not_learning; ///< a stage is hardly better than chance
  std::string forgetting;   ///< a stage alone is better than the joined network
};

/// Meetings of replicas that learn alone.
struct Meetings {
  std::int64_t every = 0;     ///< steps; 0: replicas never learn alone
  double copied_values = 0.0; ///< per parameter: as much memory traffic as copying this many values
  std::int64_t warm_up = 0;   ///< steps at the start that each end with a meeting, as the last step does

  /// Mean number of meetings in a step of a run of so many steps; 0: of a long one.
  double perStep(double steps) const;
};

/// What a strategy decides before training starts, and all that the rest of the program may ask about it: no
/// other code tests which strategy runs. One stateless object per kind; `planOf` finds it.
class StrategyPlan {
 public:
  virtual ~StrategyPlan() = default;

  /// Resets parameters that others read although they have no effect under this strategy. All others stay as
  /// they are in the deck.
  virtual void normalise(StrategySection& section) const = 0;
  /// Number of stages that the network is cut into.
  virtual int stages(const StrategySection& section) const { return static_cast<int>(section.stages); }
  /// Number of ranks that own no stage and do something else; these are the first ranks of the run.
  virtual int ranksWithoutStage(const StrategySection&) const { return 0; }
  /// Throws UserError if the roles that the deck gives to ranks do not fit their number.
  virtual void checkRanks(const StrategySection&, int ranks) const { (void)ranks; }
  /// Do ranks train at their own pace, so that they can agree only when the first rank calls them together?
  virtual bool atOwnPace() const { return false; }
  /// Does each replica get an equal share of every batch? Otherwise the strategy hands out the samples of an
  /// epoch itself, to the last one.
  virtual bool sharesBatches() const { return true; }
  /// Does each replica get a part of every full step, so that a batch needs a sample for each of them?
  virtual bool sharesSteps(const StrategySection&) const { return sharesBatches(); }
  /// May a run log its decisions, so that another run can repeat them?
  virtual bool makesDecisions() const { return false; }
  /// Does the run repeat the decisions of an earlier one? It reports none, and cannot be continued.
  virtual bool repeats(const StrategySection&) const { return false; }
  /// Does a run continue with the remaining ranks if ranks other than the first are lost?
  virtual bool toleratesLosses(const StrategySection& section) const {
    (void)section;
    return false;
  }
  /// Changes the section to that of a network that is only to be used, not trained.
  virtual void whenTrained(StrategySection&) const {}

  /// Do gradients cross the cuts, so that the network learns as one? Otherwise each stage has a loss of its
  /// own.
  virtual bool gradientsCross() const = 0;
  /// How the joined network differs from the layers of the deck.
  virtual JoinedForm joinedForm(const StrategySection&) const { return {}; }
  /// Do stages learn targets that are drawn with the seed of the run?
  virtual bool drawsTargets(const StrategySection&) const { return false; }
  /// Are the targets that both sections draw from one seed the same?
  virtual bool sameTargets(const StrategySection&, const StrategySection&) const { return true; }
  /// Is the stage before a cut trained on its output before the last activation, which then begins the next
  /// stage? `weight_layers`: number of layers with weights before the cut.
  virtual bool matchedBefore(const StrategySection&, std::int64_t weight_layers) const {
    (void)weight_layers;
    return false;
  }
  /// Does each part of a stage need whole activations at the cuts?
  virtual bool wholeAtCuts(const StrategySection&) const { return false; }
  /// Throws UserError if the network cannot end after `wanted` of its stages.
  virtual void checkEarlyEnd(const StrategySection& section, int wanted) const;
  /// Do stages after the first ever get inputs in `Real` where their layers read 16 bits?
  virtual bool realInputs(const StrategySection&) const { return false; }
  /// Adds to a stage of the network `layers` what a loss of its own needs: head, decoder and the weights of
  /// penalties. They are not part of the joined network.
  virtual void addOwnLoss(const StrategySection&, const std::vector<LayerPlan>& layers,
                          StagePlan& stage) const;
  /// Parts of heads that are refreshed with parameters of later stages. Throws UserError if shapes differ.
  virtual std::vector<ParameterCopy> copies(const StrategySection&, const std::vector<StagePlan>&) const {
    return {};
  }
  /// Do microbatches go through joined stages at some time of the run?
  virtual bool usesMicrobatches(const StrategySection& section) const = 0;
  /// Largest number of samples in one pass of a stage, on one of the replicas that learn from `batch`
  /// samples.
  virtual std::int64_t passRows(const StrategySection& section, std::int64_t batch,
                                std::int64_t replicas) const = 0;

  /// The effort per sample of the head of a stage that ends before layer `last` of `layers`.
  virtual Effort headEffort(const StrategySection& section, const std::vector<LayerPlan>& layers,
                            std::int64_t last) const;
  /// The effort per sample of training stage `index`, the layers [first, last) of `layers`, beyond that of
  /// these layers, of its head and of the loss on the true labels.
  virtual Effort extraEffort(const StrategySection& section, const std::vector<LayerPlan>& layers,
                             std::int64_t first, std::int64_t last, int index) const;
  /// Throws UserError if the strategy cannot train a network that is cut like this.
  virtual void checkStages(const StrategySection& section, const std::vector<StagePlan>& stages,
                           std::int64_t classes) const;

  /// Values for `rows` samples that a stage's loss needs beyond the loss on the true labels.
  virtual std::int64_t extraLossValues(const StagePlan& stage, const RunConfig& config,
                                       std::int64_t rows) const;
  /// Values per sample on the tape of a stage beyond those of its layers.
  virtual std::int64_t extraTapeValues(const StagePlan& stage, const StrategySection& section) const;
  /// Adds the buffers of the training, and the tapes of other live microbatches (`more_tapes` bytes).
  virtual void addTraining(StageMemory& memory, const StageBuffers& buffers, const StrategySection& section,
                           std::int64_t more_tapes) const = 0;

  /// Two batch sizes whose times tell the overhead and the speed of a rank; nothing if ranks are in step.
  virtual std::optional<std::pair<std::int64_t, std::int64_t>> timedBatches(const RunConfig&) const {
    return {};
  }

  /// Sets the phases of a run whose `steps` and `per_epoch` are set.
  virtual void setPhases(const StrategySection& section, RunLength& length) const;
  /// When replicas that learn alone become equal, and what that costs besides the messages.
  virtual Meetings meetings(const StrategySection&) const { return {}; }
  /// Do replicas differ between steps, so that a checkpoint must keep each of them?
  bool replicasDiffer(const StrategySection& section) const { return meetings(section).every > 0; }
  /// Have replicas that differ met after this step, which is not the last one?
  virtual bool meetsAfter(const StrategySection&, std::int64_t) const { return true; }
  /// Names of the vectors that checkpoints keep for a stage in addition to parameters, statistics and
  /// optimiser state. They are as long as the parameters, are stored where the optimiser state is, and are
  /// the same on all replicas.
  virtual std::vector<std::string> keptStates(const StrategySection&, const StagePlan&) const { return {}; }
  /// Do these vectors change as a whole, bucket by bucket, like the state of an optimiser?
  virtual bool streamsKeptStates() const { return false; }
  /// Steps with other messages than most: what they are called, and what stages learn from in them.
  virtual std::vector<std::pair<std::string, StepKind>> otherSteps(const StrategySection&) const {
    return {};
  }
  /// What stages learn from, as text: a run can be continued with the same stages only if this is the same.
  virtual std::string course(const StrategySection& section) const = 0;

  /// The largest speed-up of the stages of one replica over a single rank, or over as many ranks as share a
  /// stage in parts: `allowed_speedup` in the summary, and the number of the banner. By default all stages
  /// train at once, each on a rank.
  virtual double allowedSpeedup(const RunConfig&, const Partition& partition, const GridPlan&) const;
  /// What the banner prints: the speed-up that the cuts allow, and advice. `real_bytes`: see DeviceKind.
  virtual PlanNotes notes(const RunConfig& config, const Partition& partition, const GridPlan& grid,
                          std::int64_t real_bytes) const = 0;
  /// Advice about stages that learn from a loss of their own; empty if no stage does.
  virtual StageAdvice adviceFor(const StrategySection&) const { return {}; }
  /// What the summary prints besides the name of the strategy: key, value.
  virtual std::vector<std::pair<std::string, std::string>> facts(const StrategySection& section) const;
};

/// The plan of a kind of strategy; the table of all is in plan/strategies/table.cpp.
const StrategyPlan& planOf(StrategyKind kind);
inline const StrategyPlan& planOf(const StrategySection& section) {
  return planOf(section.kind);
}

/// "# the cuts allow a speed-up of 2.60 over one rank", for each replica of the grid.
std::string speedupText(double speedup, const GridPlan& grid);

inline JoinedForm joinedForm(const StrategySection& section) {
  return planOf(section).joinedForm(section);
}

/// The deck as strategies see it, see `StrategyPlan::normalise`.
RunConfig effective(RunConfig config);

} // namespace partita
