#include "place_deck.hpp"

#include "partita/config/deck.hpp"
#include "partita/config/names.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/core/log.hpp"
#include "partita/io/json.hpp"
#include "partita/io/output_file.hpp"
#include "partita/plan/placement/deck_placement.hpp"
#include "partita/plan/placement/save_memory.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/train/check_plans.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "plan_task.hpp"
#include "result_file.hpp"

namespace partita {

namespace {

/// A deck and the best plan for it.
struct PlacedDeck {
  RunConfig config;
  DeckPlacement plan;
  std::vector<std::int64_t> recomputing; ///< stages that recompute what the deck's did not, from 0
};

/// Places decks on a cluster, all with the data of one of them.
class DeckSeries {
 public:
  DeckSeries(const PlaceArguments& arguments, const Cluster& cluster)
      : _cluster(cluster), _first(planTask(arguments.input, arguments.overrides, cluster)) {
    requireWholeBatch(_first);
  }

  const CostTask& task() const { return _first.task; }

  /// Throws UserError where `train` would refuse the deck on this many ranks.
  void requireTrainable(const RunConfig& deck, std::int64_t ranks) const {
    const ProgramRun run = taskOf(deck).program->run(ranks);
    checkTraining(run.config, _first.sets, run.partition, run.grid);
  }

  template <class Use>
  auto with(const RunConfig& config, Use use) const {
    CostTask task = taskOf(config);
    task.timing = _first.task.timing;
    const CostModel model(task, _cluster, CostMode::exact);
    return use(DeckPlacer(model, _cluster, task.segments));
  }

  std::optional<DeckPlacement> fastest(const RunConfig& config, std::int64_t ranks) const {
    return with(config, [&](const DeckPlacer& placer) { return placer.fastest(ranks); });
  }

 private:
  CostTask taskOf(const RunConfig& config) const {
    return costTask(config, _first.sets.shape, _first.sets.classes, _first.sets.train.size(), {sizeof(Real)});
  }

  const Cluster& _cluster;
  PlanTask _first;
};

/// Which layers recompute, if the stages of a plan do so.
std::vector<bool> layersOf(const DeckPlacement& plan, const std::vector<bool>& stages, std::int64_t layers) {
  std::vector<bool> recompute;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto stage = std::upper_bound(plan.cuts.begin(), plan.cuts.end(), layer) - plan.cuts.begin();
    recompute.push_back(stages[static_cast<std::size_t>(stage)]);
  }
  return recompute;
}

/// Stages that fit without recomputation stop recomputing.
void recomputeLess(const DeckSeries& series, const RunConfig& config, PlacedDeck& placed) {
  std::vector<bool> stages(placed.plan.stages(), true);
  const auto changed = [&] {
    RunConfig other = placed.config;
    other.network =
        withRecomputation(config.network, layersOf(placed.plan, stages, unrolledLayers(config.network)));
    return other;
  };
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    stages[stage] = false;
    stages[stage] =
        !series.with(changed(), [&](const DeckPlacer& placer) { return placer.fits(placed.plan); });
    if (stages[stage]) placed.recomputing.push_back(static_cast<std::int64_t>(stage));
  }
  placed.config = changed();
  series.with(placed.config, [&](const DeckPlacer& placer) {
    placer.price(placed.plan);
    return true;
  });
}

/// The fastest plan of the deck; if none fits, of the deck with recomputation in the stages that need it,
/// with the optimiser's state in files, or with both, whichever fits first.
std::optional<PlacedDeck> placedDeck(const DeckSeries& series, const RunConfig& config, std::int64_t ranks) {
  for (const bool offload : {false, true}) {
    if (offload && !canOffload(config)) continue;
    for (const bool recompute : {false, true}) {
      if (recompute && !canRecompute(config.network)) continue;
      PlacedDeck placed{config, {}, {}};
      if (offload) placed.config.optimiser.offload = Offload::file;
      if (recompute)
        placed.config.network =
            withRecomputation(config.network, std::vector<bool>(unrolledLayers(config.network), true));
      const std::optional<DeckPlacement> plan = series.fastest(placed.config, ranks);
      if (!plan) continue;
      placed.plan = *plan;
      if (recompute) recomputeLess(series, config, placed);
      return placed;
    }
  }
  return std::nullopt;
}

JsonObject jsonOf(const std::optional<PlacedDeck>& placed, const RunConfig& before, double one_rank) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const DeckPlacement plan = placed ? placed->plan : DeckPlacement{};
  JsonObject object;
  object.add("feasible", placed.has_value());
  const auto number = [&](std::int64_t value) { return placed ? static_cast<double>(value) : none; };
  object.add("stages", number(plan.stages()));
  object.add("cuts", plan.cuts);
  object.add("replicas", number(plan.replicas));
  object.add("microbatches", number(plan.microbatches));
  object.add("ranks", number(plan.ranks()));
  object.add("step_s", placed ? plan.step : none);
  object.add("one_rank_step_s", one_rank);
  object.add("memory_bytes", placed ? plan.memory : none);
  object.add("recomputing_stages", placed ? placed->recomputing : std::vector<std::int64_t>{});
  object.add("offload", placed && placed->config.optimiser.offload != before.optimiser.offload);
  return object;
}

void show(const PlacedDeck& placed, double one_rank, const CostTask& task, const Cluster& cluster,
          const RunConfig& config, const PlaceArguments& arguments) {
  const DeckPlacement& plan = placed.plan;
  Log::info("cluster: " + cluster.name + " (" + cluster.source + ")");
  const std::string line =
      formatted("%.4g ms per step, %.2f times as fast as one rank; %s per rank", 1e3 * plan.step,
                plan.step > 0.0 ? one_rank / plan.step : 1.0, formatBytes(plan.memory).c_str());
  Log::info(counted(plan.stages(), "stage") +
            (plan.cuts.empty() ? "" : " (cuts " + joined(plan.cuts, ", ") + ")") + " x " +
            counted(plan.replicas, "replica") + ", " + counted(plan.microbatches, "microbatch") +
            " per replica: " + line);
  noteSmallPasses(task, plan.replicas * plan.microbatches);
  if (!placed.recomputing.empty()) {
    std::vector<std::int64_t> stages = placed.recomputing;
    for (std::int64_t& stage : stages) ++stage; // messages count them from 1
    Log::info("to fit, these stages recompute their groups of layers: " + joined(stages, ", "));
  }
  if (placed.config.optimiser.offload != config.optimiser.offload)
    Log::info("to fit, optimiser/offload: none -> file");
  const StrategyKind before = config.strategy.kind, after = plan.strategy(config.strategy).kind;
  if (before != after) Log::info("strategy/kind: " + nameOf(before) + " -> " + nameOf(after));
  if (!arguments.output.empty()) showCommand(plan.ranks(), arguments.output);
}

/// Which train must accept.
std::string deckOf(const PlacedDeck& placed, const RunConfig& config, const DeckSeries& series) {
  RunConfig result = placed.config;
  result.strategy = placed.plan.strategy(config.strategy);
  result.run.decisions = false; // only workers have them
  std::string text = writeDeck(effective(result));
  series.requireTrainable(parseDeck(text, "the placed deck"), placed.plan.ranks());
  return text;
}

} // namespace

void placeDeck(const PlaceArguments& arguments, std::int64_t ranks) {
  const std::vector<std::string> inputs = filesRead(arguments.input, arguments.overrides, arguments.cluster);
  refuseSameOutput(arguments.output, arguments.json);
  ResultFile file(arguments.json, inputs, jsonObject("feasible"), arguments.overwrite);
  std::optional<OutputFile> output;
  if (!arguments.output.empty()) {
    refuseOutput(arguments.output, inputs);
    refuseToReplace(arguments.output, deckOutput(), arguments.overwrite);
    output.emplace(arguments.output);
  }
  const Cluster cluster = clusterOf(arguments.cluster);
  const RunConfig config = effective(loadDeck(arguments.input, arguments.overrides));
  const DeckSeries series(arguments, cluster);
  DeckPlacement alone;
  series.with(config, [&](const DeckPlacer& placer) {
    placer.price(alone);
    return true;
  });
  const std::optional<PlacedDeck> placed = placedDeck(series, config, ranks);
  warnOfAssumptions(series.task(), cluster, ranks);
  if (placed && output) {
    output->write(sealed(deckOf(*placed, config, series), deckOutput()));
    output->commit();
  }
  file.write(jsonOf(placed, config, alone.step).text());
  if (!placed) {
    const std::string message = cluster.memory > 0.0
                                    ? "no plan was found that fits: each needs more than " +
                                          formatBytes(cluster.memory) + " on some rank"
                                    : "no plan fits the network and the batch: train would refuse each";
    // Otherwise a script would train the deck of an earlier call.
    if (output) throw UserError(arguments.output + ": was not written: " + message);
    if (!file.isStandardOutput()) Log::info(message);
    return;
  }
  if (!file.isStandardOutput()) show(*placed, alone.step, series.task(), cluster, config, arguments);
}

} // namespace partita
