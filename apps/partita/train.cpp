#include "partita/comm/agree.hpp"
#include "partita/config/deck.hpp"
#include "partita/config/files.hpp"
#include "partita/config/names.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/core/log.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/strategy.hpp"
#include "partita/train/check_plans.hpp"
#include "partita/train/restart.hpp"
#include "partita/train/run_files.hpp"
#include "partita/train/run_leftovers.hpp"
#include "partita/train/signals.hpp"
#include "partita/train/training_run.hpp"

#include <filesystem>

#include "commands.hpp"

namespace partita {

namespace fs = std::filesystem;

namespace {

/// The deck stored in the checkpoint, which rank 0 reads for all; empty if the command line names a deck, or
/// there is no checkpoint. Collective.
std::string storedDeck(const Communicator& world, const TrainArguments& arguments, const std::string& file) {
  if (!arguments.deck.empty() || file.empty()) return "";
  std::string text;
  collectively(world, [&] {
    if (world.rank() == 0) text = RunFile(file).facts().deck;
  });
  return broadcast(world, text);
}

/// The deck of the command line, or the stored one.
RunConfig deckOf(const TrainArguments& arguments, const std::string& restart_file,
                 const std::string& stored) {
  if (!arguments.deck.empty()) return loadDeck(arguments.deck, arguments.overrides);
  if (restart_file.empty())
    throw UserError("run directory '" + arguments.run_directory +
                    "' has no checkpoint to continue from; name a deck to start a new run");
  return parseDeck(stored, restart_file, arguments.overrides);
}

/// A run that made decisions is repeated by one rank, which makes none.
void setReplay(const TrainArguments& arguments, RunConfig& deck) {
  if (!planOf(deck.strategy).makesDecisions())
    throw UserError("--replay: needs a deck with strategy/kind 'hogbatch', not '" +
                    nameOf(deck.strategy.kind) + "'");
  if (!arguments.restart.empty())
    throw UserError("--replay: repeats a run from its beginning, so it cannot be used with -r");
  if (!regularFileExists(arguments.replay))
    throw UserError("--replay: '" + arguments.replay + "' does not exist");
  rulesOf(deck.strategy).repeat(deck, arguments.replay); // reads the file before results are discarded
  std::error_code ignored;
  if (fs::equivalent(fs::weakly_canonical(arguments.replay, ignored).parent_path(), arguments.run_directory,
                     ignored))
    throw UserError("--replay: '" + arguments.replay + "' is in the run directory '" +
                    arguments.run_directory + "', where it would be replaced; choose another directory");
  deck.run.decisions = false;
}

/// The parameters of a finished run in a directory that continues from its newest checkpoint; empty: none.
std::string finishedRun(const TrainPlan& plan) {
  if (!plan.directory.exists() || plan.start.overwrite) return "";
  const std::string& folder = plan.directory.path();
  const std::vector<std::string> checkpoints = checkpointsIn(folder);
  std::error_code ignored;
  const bool newest = !checkpoints.empty() && fs::equivalent(plan.start.file, checkpoints.front(), ignored);
  if ((!plan.start.latest && !newest) || !holdsFinishedRun(folder)) return "";
  const std::string parameters = folder + "/parameters.h5";
  try {
    RunFile(parameters).verify();
  } catch (const DamagedFile&) {
    return ""; // a checkpoint may restore them
  }
  return parameters;
}

/// Returns whether the run is over: the directory holds a finished run of the same deck. Another deck needs a
/// checkpoint to continue from. Collective.
bool isOver(const Communicator& world, const TrainArguments& arguments, const TrainPlan& plan) {
  std::string finished;
  collectively(world, [&] {
    if (world.rank() == 0) finished = finishedRun(plan); // other ranks may see its files late
    if (finished.empty()) return;
    const RunConfig before = parseDeck(RunFile(finished).facts().deck, finished);
    const std::vector<std::string> changes = deckChanges(
        before, arguments.deck.empty() ? parseDeck(writeDeck(before), finished, arguments.overrides)
                                       : loadDeck(arguments.deck, arguments.overrides));
    const std::string& newest = plan.start.file;
    if (!changes.empty() && newest.empty())
      throw UserError(
          "run directory '" + plan.directory.path() +
          "' contains a finished run without checkpoints, but the deck differs from that of the run (" +
          changes.front() + "); choose another directory; -r " + finished + " starts with its parameters");
    if (!changes.empty()) finished.clear();
  });
  const bool over = world.maximum(std::int64_t{finished.empty() ? 0 : 1}) > 0;
  if (over) Log::info("run directory '" + plan.directory.path() + "' contains a finished run: nothing to do");
  return over;
}

/// The folder for files that vanish with the run. A dry run makes no run directory: until it exists, the
/// folder in which it would be created is used instead, or the missing root of another file system.
std::string scratchOf(const TrainArguments& arguments, const TrainPlan& plan) {
  if (arguments.run_directory.empty()) return plan.directory.scratch();
  std::error_code ignored;
  fs::path folder = fs::absolute(arguments.run_directory, ignored);
  while (!fs::exists(folder, ignored) && folder.parent_path() != folder.root_path())
    folder = folder.parent_path();
  return folder.string();
}

/// A deck may have keys of all kinds, as every effective deck does; somebody who writes an override wants an
/// effect.
void warnOfUnused(const std::vector<std::string>& overrides, const RunConfig& deck) {
  for (const UnusedKey& unused : withoutEffect(overrides, deck))
    Log::warnOnce(unused.key + " on the command line has no effect with " + unused.setting);
}

/// Refuses files that have no place without a run directory.
void checkOutputs(const RunSection& run) {
  if (run.decisions) throw UserError("run/decisions: decisions.csv needs a run directory (-d)");
  if (run.trace > 0) throw UserError("run/trace: trace.json needs a run directory (-d)");
}

} // namespace

std::optional<TrainPlan> prepareTrain(const Communicator& world, const TrainArguments& arguments) {
  // From here on, a signal to stop is answered by the run, which may be about to begin.
  if (!arguments.dry_run) Signals::listen();
  TrainPlan plan{RunDirectory(world, arguments.dry_run ? "" : arguments.run_directory),
                 {"", arguments.restart == "latest", arguments.overwrite},
                 {}};
  plan.start.file = chooseRestart(world, arguments.restart, arguments.run_directory);
  if (isOver(world, arguments, plan)) return {};
  plan.directory.admit(world, plan.start);
  const std::string stored = storedDeck(world, arguments, plan.start.file);
  collectively(world, [&] {
    if (plan.directory.exists() && world.rank() == 0)
      for (const std::string& file : {arguments.deck, plan.start.file})
        refuseLeftover(plan.directory.path(), file);
    plan.deck = deckOf(arguments, plan.start.file, stored);
    if (world.rank() == 0) warnOfUnused(arguments.overrides, plan.deck);
    if (!arguments.replay.empty()) setReplay(arguments, plan.deck);
    if (!arguments.dry_run && !plan.directory.exists()) checkOutputs(plan.deck.run);
    if (arguments.dry_run && world.rank() == 0)
      dryRun(plan.deck, arguments.ranks > 0 ? arguments.ranks : world.size(), scratchOf(arguments, plan));
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
