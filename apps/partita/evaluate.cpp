#include "partita/train/training_run.hpp"

#include "commands.hpp"

namespace partita {

void runEvaluate(const Communicator& world, const EvaluateArguments& arguments,
                 const std::string& command_line) {
  evaluateRun(world, arguments.path, arguments.overrides, arguments.predictions, command_line);
}

} // namespace partita
