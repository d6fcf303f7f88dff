#include "partita/train/export_run.hpp"

#include "commands.hpp"

namespace partita {

void runExport(const Communicator& world, const ExportArguments& arguments, const std::string& command_line) {
  exportRun(world, arguments.path, arguments.output, command_line);
}

} // namespace partita
