#include "partita/comm/agree.hpp"
#include "partita/config/deck.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/train/restart.hpp"
#include "partita/train/training_run.hpp"

#include "commands.hpp"

namespace partita {

namespace {

constexpr int exit_failure = 1, exit_stopped = 75; // EX_TEMPFAIL: to be tried again

/// The deck of the command line, or the one that the checkpoint has kept.
RunConfig deckOf(const TrainArguments& arguments, const std::string& restart_file) {
  if (!arguments.deck.empty()) return loadDeck(arguments.deck, arguments.overrides);
  if (restart_file.empty())
    throw UserError("run directory '" + arguments.run_directory +
                    "' has no checkpoint to go on from: name a deck to begin with");
  return parseDeck(RunFile(restart_file).facts().deck, restart_file, arguments.overrides);
}

} // namespace

bool prepareTrain(const Communicator& world, const TrainArguments& arguments) {
  const bool kept_deck = arguments.deck.empty();
  const std::string file =
      kept_deck ? chooseRestart(world, arguments.restart, arguments.run_directory) : std::string();
  collectively(world, [&] {
    const RunConfig config = deckOf(arguments, file);
    if (arguments.dry_run && world.rank() == 0)
      dryRun(config, arguments.ranks > 0 ? arguments.ranks : world.size());
  });
  return !arguments.dry_run;
}

int runTrain(const Communicator& world, const TrainArguments& arguments, const std::string& command_line) {
  const std::string file = chooseRestart(world, arguments.restart, arguments.run_directory);
  const Outcome outcome =
      trainDeck(world, deckOf(arguments, file), file,
                {arguments.run_directory, command_line, arguments.restart, arguments.time_limit_seconds});
  if (outcome == Outcome::stopped) return exit_stopped;
  return outcome == Outcome::finished ? 0 : exit_failure;
}

} // namespace partita
