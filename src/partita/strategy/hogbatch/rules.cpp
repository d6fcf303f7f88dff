#include "partita/config/deck.hpp"
#include "partita/config/user_error.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/plan/hogbatch/deck_mix.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/hogbatch/decisions.hpp"
#include "partita/strategy/hogbatch/departure.hpp"
#include "partita/strategy/hogbatch/hogbatch.hpp"
#include "partita/strategy/hogbatch/replay.hpp"
#include "partita/strategy/hogbatch/run_state.hpp"
#include "partita/strategy/hogbatch/worker_forecast.hpp"

#include <algorithm>

namespace partita {

namespace {

bool repeats(const RunConfig& config) {
  return planOf(config.strategy).repeats(config.strategy);
}

bool takesSteps(const RunConfig& config) {
  return config.strategy.hogbatch.rule == WorkerRule::synchronous;
}

/// Does a change of the deck, as in `deckChanges`, change the gradients of given batches?
bool changesGradients(const std::string& change) {
  const std::string key = change.substr(0, change.find_first_of(": "));
  for (const char* harmless : {"data/path", "data/prefetch", "data/test_file", "data/test_images",
                               "data/test_labels", "data/test_samples"})
    if (key == harmless) return false;
  return key.rfind("data/", 0) == 0 || key.rfind("network/", 0) == 0 || key.rfind("training/", 0) == 0 ||
         key == "run/seed" || key == "run/precision";
}

class HogbatchRules final : public StrategyRules {
 public:
  std::unique_ptr<Strategy> make(const RunContext& context) const override {
    if (repeats(context.config)) return std::make_unique<HogbatchReplay>(context);
    return std::make_unique<HogbatchTraining>(context);
  }

  void checkFiles(const RunConfig& config, const RunLength& length, std::int64_t samples,
                  const std::string&) const override {
    if (repeats(config)) readUpdates(config, SampleProgress(config, length, samples));
  }
  void checkLog(const RunConfig& config, const LoggedRun& run) const override;
  void repeat(RunConfig& deck, const std::string& log) const override { repeatDecisions(deck, log); }

  std::shared_ptr<const RunForecast> forecast(const RunConfig& config, const CostTask& task,
                                              const std::string& deck, std::int64_t ranks,
                                              const Cluster& cluster) const override {
    return std::make_shared<WorkerForecast>(config, task, deck, ranks, cluster);
  }

  /// The model, from which workers read and which they change.
  std::int64_t windowBytes(const RunConfig& config, const Partition& partition, int ranks) const override {
    return repeats(config) ? 0 : SharedModel::bytes(partition.stages.front().storedValues(), ranks);
  }
  /// The window, unless a shared worker counts it, and two models for each worker on another node.
  std::int64_t bytesWithoutStage(const RunConfig& config, const Partition& partition, int ranks,
                                 int elsewhere) const override {
    const std::int64_t model =
        partition.stages.front().storedValues() * static_cast<std::int64_t>(sizeof(Real));
    // Without `decisions`, the plan of a shared worker counts the model, which is in the window.
    const bool counted = config.strategy.hogbatch.shared_workers > 0 && !config.run.decisions;
    return (counted ? 0 : windowBytes(config, partition, ranks)) + 2 * model * elsewhere;
  }
  GivenMemory givenMemory(const RunConfig& config, const Partition& partition, const Grid& grid,
                          const SharedWindow* window) const override;

  void leaveOut(const std::vector<int>& ranks, const StrategySection& strategy, const Communicator& world,
                MeetingState& state) const override {
    leaveWorkersOut(ranks, strategy, world, state);
  }
  StrategySection withoutRanks(const StrategySection& strategy,
                               const std::vector<int>& ranks) const override {
    return withoutWorkers(strategy, ranks);
  }
};

GivenMemory HogbatchRules::givenMemory(const RunConfig& config, const Partition& partition, const Grid& grid,
                                       const SharedWindow* window) const {
  if (window == nullptr || !isSharedWorker(config, grid)) return {};
  const std::string rank = "rank " + std::to_string(grid.world().worldRank(grid.world().rank()));
  if (!device_is_host)
    throw UserError("strategy/shared_workers: " + rank +
                    " computes on a device; only ranks of a host build can be shared workers");
  if (window->data() == nullptr)
    throw UserError("strategy/shared_workers: " + rank +
                    " is not on the node of rank 0, whose memory shared workers update");
  // A run that can be repeated needs parameters that do not change while a gradient is computed.
  if (config.run.decisions) return {};
  return SharedModel(*window, partition.stages.front().storedValues(), grid.world().size()).memory();
}

void HogbatchRules::checkLog(const RunConfig& config, const LoggedRun& run) const {
  const auto state = HogbatchState::from(run.numbers, workerGroups(config, run.replicas).size(),
                                         static_cast<std::size_t>(run.replicas));
  if (!state)
    throw UserError("run/decisions: the log cannot continue with other workers or after another strategy; "
                    "continue with run/decisions=false, or with the workers of the checkpoint");
  const RunConfig before = parseDeck(run.deck, run.checkpoint);
  if (before.training.batch != config.training.batch)
    throw UserError("run/decisions: the log cannot continue with another training/batch, since samples could "
                    "repeat; set run/decisions=false");
  if (!changeAlike(before, config))
    throw UserError("run/decisions: the log cannot continue with another strategy/merge or strategy/update, "
                    "since it records neither; set run/decisions=false");
  for (const std::string& change : deckChanges(before, config))
    if (changesGradients(change))
      throw UserError("run/decisions: the log cannot continue with another deck (" + change +
                      "), since a replay computes all gradients with the last deck; set run/decisions=false");
  if (takesSteps(before) != takesSteps(config)) // for which dropout draws its masks
    throw UserError("run/decisions: the log cannot continue with another deck (strategy/rule), since a "
                    "replay computes all gradients with the last deck; set run/decisions=false");
  const std::vector<Decision> decisions = readDecisions(run.log);
  const std::int64_t found = std::count_if(decisions.begin(), decisions.end(), [&](const Decision& one) {
    return one.applied >= 0 && one.applied < state->version;
  });
  if (found != state->version)
    throw UserError("run/decisions: the log has " + std::to_string(found) + " of the " +
                    std::to_string(state->version) + " updates before " + run.checkpoint +
                    "; set run/decisions=false");
}

} // namespace

const StrategyRules& hogbatchRules() {
  static const HogbatchRules rules;
  return rules;
}

} // namespace partita
