#include "partita/comm/agree.hpp"
#include "partita/config/deck.hpp"
#include "partita/train/training_run.hpp"

#include "commands.hpp"

namespace partita {

bool prepareTrain(const Communicator& world, const TrainArguments& arguments) {
  collectively(world, [&] {
    const RunConfig config = loadDeck(arguments.deck, arguments.overrides);
    if (arguments.dry_run && world.rank() == 0)
      dryRun(config, arguments.ranks > 0 ? arguments.ranks : world.size());
  });
  return !arguments.dry_run;
}

void runTrain(const Communicator& world, const TrainArguments& arguments, const std::string& command_line) {
  trainDeck(world, loadDeck(arguments.deck, arguments.overrides),
            {arguments.run_directory, command_line, arguments.restart, arguments.time_limit_seconds});
}

} // namespace partita
