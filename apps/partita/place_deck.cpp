#include "place_deck.hpp"

#include "partita/config/deck.hpp"
#include "partita/config/names.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/core/log.hpp"
#include "partita/io/json.hpp"
#include "partita/io/output_file.hpp"
#include "partita/plan/search/deck_placement.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <array>
#include <cstdio>
#include <limits>
#include <optional>

#include "plan_task.hpp"
#include "result_file.hpp"

namespace partita {

namespace {

JsonObject jsonOf(const std::optional<DeckPlacement>& plan, double one_rank) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  JsonObject object;
  object.add("feasible", plan.has_value());
  const auto number = [&](std::int64_t value) { return plan ? static_cast<double>(value) : none; };
  object.add("stages", number(plan ? plan->stages() : 0));
  object.add("cuts", plan ? plan->cuts : std::vector<std::int64_t>{});
  object.add("replicas", number(plan ? plan->replicas : 0));
  object.add("microbatches", number(plan ? plan->microbatches : 0));
  object.add("ranks", number(plan ? plan->ranks() : 0));
  object.add("step_s", plan ? plan->step : none);
  object.add("one_rank_step_s", one_rank);
  object.add("memory_bytes", plan ? plan->memory : none);
  return object;
}

void show(const DeckPlacement& plan, double one_rank, const Cluster& cluster, const RunConfig& config,
          const PlaceArguments& arguments) {
  std::array<char, 200> line{};
  Log::info("cluster: " + cluster.name + " (" + cluster.source + ")");
  std::snprintf(line.data(), line.size(),
                "%lld stages%s x %lld replicas, %lld micro-batches per replica: %.4g ms per step, %.2f times "
                "faster than one rank; %s per rank",
                static_cast<long long>(plan.stages()),
                plan.cuts.empty() ? "" : (" (cuts " + joined(plan.cuts, ", ") + ")").c_str(),
                static_cast<long long>(plan.replicas), static_cast<long long>(plan.microbatches),
                1e3 * plan.step, one_rank / plan.step, formatBytes(plan.memory).c_str());
  Log::info(line.data());
  const StrategyKind before = config.strategy.kind, after = plan.strategy(config.strategy).kind;
  if (before != after) Log::info("strategy/kind: " + nameOf(before) + " -> " + nameOf(after));
  if (!arguments.output.empty())
    Log::info("mpirun -n " + std::to_string(plan.ranks()) + " partita train " + arguments.output);
}

} // namespace

void placeDeck(const PlaceArguments& arguments, std::int64_t ranks) {
  ResultFile file(arguments.json, {arguments.input});
  std::optional<OutputFile> output;
  if (!arguments.output.empty()) {
    refuseInput(arguments.output, {arguments.input, arguments.cluster});
    output.emplace(arguments.output);
  }
  const Cluster cluster = clusterOf(arguments.cluster);
  const RunConfig config = effective(loadDeck(arguments.input, arguments.overrides));
  const CostModel model(planTask(arguments.input, arguments.overrides, cluster).task, cluster,
                        CostMode::exact);
  const DeckPlacer placer(model, cluster, model.task().segments);
  DeckPlacement alone;
  placer.price(alone);
  const std::optional<DeckPlacement> plan = placer.fastest(ranks);
  file.write(jsonOf(plan, alone.step).text());
  if (!plan) {
    if (!file.isStandardOutput())
      Log::info("no plan fits: each needs more than " + formatBytes(cluster.memory) + " on some rank");
    return;
  }
  if (!file.isStandardOutput()) show(*plan, alone.step, cluster, config, arguments);
  if (!output) return;
  RunConfig placed = config;
  placed.strategy = plan->strategy(config.strategy);
  output->write(writeDeck(effective(placed)));
  output->commit();
}

} // namespace partita
