#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"
#include "partita/io/json.hpp"
#include "partita/plan/placement/read_tasks.hpp"

#include <limits>

#include "commands.hpp"
#include "place_deck.hpp"
#include "placed_stages.hpp"
#include "result_file.hpp"

namespace partita {

namespace {

/// Numbers that do not exist become null.
JsonObject jsonOf(const PlacementTask& task, const DevicePlan& placement, std::optional<double> fixed) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const bool feasible = placement.feasible;
  const int degree = task.graphs[placement.graph].tensor_degree;
  JsonObject object;
  object.add("feasible", feasible);
  object.add("finalTimePerBatch", feasible ? placement.time : none);
  object.add("dataParallelDegree", feasible ? static_cast<double>(placement.replicas) : none);
  object.add("tensorParallelDegree", feasible ? degree : none);
  object.add("stages", stageObjects(task, placement));
  object.add("fixedStrategyTimePerBatch", fixed.value_or(none));
  if (feasible)
    object.add("limit", none);
  else
    object.add("limit", placement.limit);
  return object;
}

void show(const PlacementTask& task, const DevicePlan& placement, std::optional<double> fixed) {
  if (placement.feasible) {
    Log::info(formatted("%.9g s per batch: %s, data parallel %lld, tensor parallel %d", placement.time,
                        counted(static_cast<std::int64_t>(placement.stages.size()), "stage").c_str(),
                        static_cast<long long>(placement.replicas),
                        task.graphs[placement.graph].tensor_degree));
  } else {
    Log::info("no plan fits: " + placement.limit);
  }
  if (fixed) {
    Log::info(formatted("%.9g s per batch: the fixed plan", *fixed));
  } else if (task.fixed) {
    Log::info("the fixed plan does not fit");
  }
  if (placement.stages.empty()) return;
  Log::info("");
  for (const std::string& row : stageLines(task, placement)) Log::info(row);
}

/// Options that the kind of input does not have would have no effect.
void checkOptions(const PlaceArguments& arguments, bool deck) {
  if (deck && arguments.brute_force) throw UserError("command line: --brute-force needs layers as JSON");
  if (deck) return;
  if (!arguments.overrides.empty())
    throw UserError("command line: '" + arguments.overrides.front() + "' changes a deck, but " +
                    arguments.input + " is not one");
  if (!arguments.output.empty() || !arguments.cluster.empty() || arguments.ranks > 0)
    throw UserError("command line: --output, --cluster and --ranks need a deck, whose name ends in .toml");
}

void place(const PlaceArguments& arguments) {
  ResultFile file(arguments.json, {arguments.input}, jsonObject("feasible"), arguments.overwrite);
  const PlacementTask task = readPlacementTask(arguments.input);
  DevicePlan placement;
  try {
    placement = arguments.brute_force ? placeByBruteForce(task) : placeLayers(task);
  } catch (const UserError& error) {
    throw UserError(arguments.input + ": " + error.what());
  }
  const std::optional<double> fixed = timeOfFixedPlan(task);
  file.write(jsonOf(task, placement, fixed).text());
  if (!file.isStandardOutput()) show(task, placement, fixed);
}

} // namespace

void runPlace(const PlaceArguments& arguments, std::int64_t job_ranks) {
  const bool deck = endsWith(arguments.input, ".toml");
  checkOptions(arguments, deck);
  if (deck)
    placeDeck(arguments, arguments.ranks > 0 ? arguments.ranks : job_ranks);
  else
    place(arguments);
}

} // namespace partita
