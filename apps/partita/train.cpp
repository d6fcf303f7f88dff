#include "partita/comm/agree.hpp"
#include "partita/comm/end_job.hpp"
#include "partita/config/deck.hpp"
#include "partita/core/log.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/train/restart.hpp"
#include "partita/train/run_files.hpp"
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

/// What ranks have to agree on before they do anything together.
std::string essence(const TrainArguments& arguments) {
  std::string text = arguments.deck;
  for (const std::string& override : arguments.overrides) text += '\n' + override;
  return text + '\n' + arguments.run_directory + '\n' + arguments.restart + '\n' +
         std::to_string(arguments.time_limit_seconds) + (arguments.dry_run ? " -n" : "") +
         (arguments.overwrite ? " --overwrite" : "");
}

/// A run that has finished without a checkpoint cannot go on: there is nothing to do, unless the deck wants
/// something else, which is refused. True where the run is over. Collective.
bool isOver(const Communicator& world, const TrainArguments& arguments, const TrainPlan& plan) {
  const std::string& folder = plan.directory.path();
  bool over = false;
  collectively(world, [&] {
    over = plan.directory.exists() && plan.start.latest && plan.start.file.empty() && !plan.start.overwrite &&
           holdsFinishedRun(folder);
    if (!over) return;
    const std::string kept = parameterFileOf(folder), stored = RunFile(kept).facts().deck;
    const std::vector<std::string> changes = deckChanges(
        parseDeck(stored, kept), arguments.deck.empty() ? parseDeck(stored, kept, arguments.overrides)
                                                        : loadDeck(arguments.deck, arguments.overrides));
    if (changes.empty()) return;
    throw UserError("run directory '" + folder +
                    "' holds a finished run without checkpoints, and the deck asks "
                    "for another one (" +
                    changes.front() + "): take another directory; -r " + kept +
                    " begins with its parameters");
  });
  if (over) Log::info("run directory '" + folder + "' holds a finished run: nothing to do");
  return over;
}

} // namespace

std::optional<TrainPlan> prepareTrain(const Communicator& world, const TrainArguments& arguments) {
  Signals::listen(); // from here on: a wish for a checkpoint must not end what has not yet begun
  requireSame(world, essence(arguments), "command line");
  TrainPlan plan{RunDirectory(world, arguments.dry_run ? "" : arguments.run_directory),
                 {"", arguments.restart == "latest", arguments.overwrite},
                 {}};
  plan.start.file = chooseRestart(world, arguments.restart, arguments.run_directory);
  if (isOver(world, arguments, plan)) return {};
  plan.directory.admit(world, plan.start);
  collectively(world, [&] {
    plan.deck = deckOf(arguments, plan.start.file);
    if (arguments.dry_run && world.rank() == 0)
      dryRun(plan.deck, arguments.ranks > 0 ? arguments.ranks : world.size());
  });
  requireSame(world, writeDeck(plan.deck), "deck");
  if (arguments.dry_run) return {};
  return plan;
}

int runTrain(const Communicator& world, const TrainPlan& plan, const TrainArguments& arguments,
             const std::string& command_line) {
  const Outcome outcome =
      trainDeck(world, plan.deck, plan.directory, {command_line, plan.start, arguments.time_limit_seconds});
  if (outcome == Outcome::stopped) return exit_stopped;
  return outcome == Outcome::finished ? 0 : exit_failure;
}

} // namespace partita
