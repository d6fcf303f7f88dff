#include "partita/comm/agree.hpp"
#include "partita/comm/end_job.hpp"
#include "partita/config/deck.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/train/restart.hpp"
#include "partita/train/signals.hpp"
#include "partita/train/training_run.hpp"

#include "commands.hpp"

namespace partita {

namespace {

/// The deck of the command line, or the one that the checkpoint has kept.
RunConfig deckOf(const TrainArguments& arguments, const std::string& restart_file) {
  if (!arguments.deck.empty()) return loadDeck(arguments.deck, arguments.overrides);
  if (restart_file.empty())
    throw UserError("run directory '" + arguments.run_directory +
                    "' has no checkpoint to go on from: name a deck to begin with");
  return parseDeck(RunFile(restart_file).facts().deck, restart_file, arguments.overrides);
}

} // namespace

std::optional<TrainPlan> prepareTrain(const Communicator& world, const TrainArguments& arguments) {
  Signals::listen(); // from here on: a wish for a checkpoint must not end what has not yet begun
  TrainPlan plan{RunDirectory(world, arguments.dry_run ? "" : arguments.run_directory), "", {}};
  plan.restart_file = chooseRestart(world, arguments.restart, arguments.run_directory);
  collectively(world, [&] {
    plan.deck = deckOf(arguments, plan.restart_file);
    if (arguments.dry_run && world.rank() == 0)
      dryRun(plan.deck, arguments.ranks > 0 ? arguments.ranks : world.size());
  });
  if (arguments.dry_run) return {};
  return plan;
}

int runTrain(const Communicator& world, const TrainPlan& plan, const TrainArguments& arguments,
             const std::string& command_line) {
  const Outcome outcome =
      trainDeck(world, plan.deck, plan.restart_file, plan.directory,
                {command_line, arguments.restart == "latest", arguments.time_limit_seconds});
  if (outcome == Outcome::stopped) return exit_stopped;
  return outcome == Outcome::finished ? 0 : exit_failure;
}

} // namespace partita
