#include "partita/config/deck.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/core/log.hpp"
#include "partita/io/output_file.hpp"
#include "partita/plan/cost/rank_strategies.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/train/check_plans.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include "commands.hpp"
#include "plan_task.hpp"
#include "result_file.hpp"

namespace partita {

namespace {

/// A strategy and the deck with which `train` runs it.
struct DeckChoice {
  Prediction prediction;
  RunConfig deck;
};

/// Nothing if `train` would refuse the deck.
std::optional<DeckChoice> choiceOf(const PlanTask& plan, const CostModel& model,
                                   const Prediction& prediction) {
  try {
    const ProgramRun run = model.runFor(prediction);
    checkTraining(run.config, plan.sets, run.partition, run.grid);
    RunConfig deck = model.task().program->deck();
    deck.strategy = run.config.strategy;
    deck.run.decisions = deck.run.decisions && planOf(deck.strategy).makesDecisions();
    return DeckChoice{prediction, parseDeck(writeDeck(deck), "the chosen deck")};
  } catch (const UserError&) {
    return {};
  }
}

bool isSimpler(const Prediction& a, const Prediction& b) {
  const auto effort = [](const Prediction& prediction) {
    return std::make_tuple(mayChangeAccuracy(prediction.strategy), prediction.grid.stages,
                           prediction.grid.parts, prediction.microbatches);
  };
  return effort(a) < effort(b);
}

/// The fastest strategies, with one plan per name and split: the simplest that is not clearly slower. The
/// simplest of all that are not clearly slower than the fastest comes first.
std::vector<DeckChoice> fastest(const PlanTask& plan, const Cluster& cluster, std::int64_t ranks,
                                bool local) {
  const CostModel model(plan.task, cluster, CostMode::exact);
  std::vector<DeckChoice> choices;
  double shortest = std::numeric_limits<double>::infinity();
  const auto is_clearly_slower = [&](const Prediction& prediction) {
    return cluster.worthwhile(ranks) * prediction.epochSeconds() > shortest;
  };
  for (const Prediction& prediction : rankStrategies(plan.task, cluster, ranks, local)) {
    if (!prediction.feasible() || (choices.size() > 1 && is_clearly_slower(prediction))) break;
    const auto known = std::find_if(choices.begin(), choices.end(), [&](const DeckChoice& choice) {
      return choice.prediction.strategy == prediction.strategy && choice.prediction.split == prediction.split;
    });
    const bool is_new = known == choices.end();
    if (!is_new && (is_clearly_slower(prediction) || !isSimpler(prediction, known->prediction))) continue;
    const std::optional<DeckChoice> choice = choiceOf(plan, model, prediction);
    if (!choice) continue;
    shortest = std::min(shortest, prediction.epochSeconds());
    if (is_new)
      choices.push_back(*choice);
    else
      *known = *choice;
  }
  auto simplest = choices.begin();
  for (auto choice = choices.begin(); choice != choices.end(); ++choice)
    if (!is_clearly_slower(choice->prediction) && isSimpler(choice->prediction, simplest->prediction))
      simplest = choice;
  if (!choices.empty()) std::rotate(choices.begin(), simplest, simplest + 1);
  return choices;
}

[[noreturn]] void refuse(const PlanTask& plan, const Cluster& cluster, const DeckArguments& arguments) {
  const std::string ranks = std::to_string(arguments.ranks);
  double least = 0.0;
  for (const Prediction& prediction :
       rankStrategies(plan.task, cluster, arguments.ranks, arguments.allow_local))
    if (prediction.obstacle == Obstacle::not_enough_memory && (least == 0.0 || prediction.memory < least))
      least = prediction.memory;
  if (least > 0.0)
    throw UserError("--ranks " + ranks + ": no strategy that train can run fits into node/memory, " +
                    formatBytes(cluster.memory) + "; the smallest needs " + formatBytes(least) + " per rank");
  throw UserError("--ranks " + ranks + ": no strategy that train can run fits the network and the batch");
}

std::string lineOf(const Prediction& prediction) {
  std::string line = nameOf(prediction.strategy);
  if (prediction.grid.stages > 1 && prediction.grid.parts > 1)
    line += " with parts by " + splitName(prediction.split);
  line += " on " + gridText(prediction.grid) + " ranks";
  if (prediction.microbatches > 1) line += " with " + counted(prediction.microbatches, "microbatch");
  return line + ": " + timeText(prediction.stepSeconds()) + " per step, " +
         timeText(prediction.epochSeconds()) + " per epoch, " + formatBytes(prediction.memory) + " per rank";
}

std::string percentOf(const Prediction& other, const Prediction& chosen) {
  const double seconds = chosen.epochSeconds(); // 0: a network without parameters
  return seconds > 0.0 ? formatted(" (%+.1f %%)", 100.0 * (other.epochSeconds() / seconds - 1.0)) : "";
}

void show(const std::vector<DeckChoice>& choices, const std::vector<DeckChoice>& local, const PlanTask& plan,
          const Cluster& cluster, const DeckArguments& arguments) {
  const Prediction& chosen = choices.front().prediction;
  Log::info("cluster: " + cluster.name + " (" + cluster.source + ")");
  if (cluster.links.assumed) Log::info("links between ranks: assumed");
  Log::info("chosen: " + lineOf(chosen));
  if (mayChangeAccuracy(chosen.strategy))
    Log::info("  its accuracy may differ from that of conventional training; without --allow-local it is not "
              "considered");
  noteSmallPasses(plan.task, chosen.grid.replicas * chosen.microbatches);
  if (choices.size() > 1) {
    const Prediction& second = choices[1].prediction;
    const bool faster = second.epochSeconds() < 0.9995 * chosen.epochSeconds(); // also if rounded to 0.1 %
    Log::info((faster ? "about as fast: " : "second best: ") + lineOf(second) + percentOf(second, chosen));
  }
  if (!local.empty() && mayChangeAccuracy(local.front().prediction.strategy))
    Log::info("with --allow-local: " + lineOf(local.front().prediction) +
              percentOf(local.front().prediction, chosen) + "; its accuracy may differ");
  showCommand(arguments.ranks, arguments.output);
}

JsonObject jsonOf(const std::vector<DeckChoice>& choices, const std::vector<DeckChoice>& local,
                  const Cluster& cluster) {
  JsonObject object;
  object.add("chosen", jsonOf(choices.front().prediction));
  object.add("cluster", cluster.name);
  object.add("may_change_accuracy", mayChangeAccuracy(choices.front().prediction.strategy));
  if (choices.size() > 1) object.add("second", jsonOf(choices[1].prediction));
  if (!local.empty()) object.add("local", jsonOf(local.front().prediction));
  return object;
}

} // namespace

void runChooseDeck(const DeckArguments& arguments) {
  const std::vector<std::string> inputs = filesRead(arguments.deck, arguments.overrides, arguments.cluster);
  refuseOutput(arguments.output, inputs);
  refuseSameOutput(arguments.output, arguments.json);
  refuseToReplace(arguments.output, deckOutput(), arguments.overwrite);
  OutputFile output(arguments.output); // first, so that a bad path is reported at once
  ResultFile file(arguments.json, inputs, jsonObject("chosen"), arguments.overwrite);
  const Cluster cluster = clusterOf(arguments.cluster);
  const PlanTask plan = planTask(arguments.deck, arguments.overrides, cluster);
  requireWholeBatch(plan);
  const std::vector<DeckChoice> choices = fastest(plan, cluster, arguments.ranks, arguments.allow_local);
  if (choices.empty()) refuse(plan, cluster, arguments);
  const std::vector<DeckChoice> local =
      arguments.allow_local ? std::vector<DeckChoice>{} : fastest(plan, cluster, arguments.ranks, true);
  warnOfAssumptions(plan.task, cluster, arguments.ranks);
  output.write(sealed(writeDeck(choices.front().deck), deckOutput()));
  output.commit();
  file.write(jsonOf(choices, local, cluster).text());
  if (!file.isStandardOutput()) show(choices, local, plan, cluster, arguments);
}

} // namespace partita
