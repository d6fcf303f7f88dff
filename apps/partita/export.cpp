#include "partita/comm/agree.hpp"

#include "commands.hpp"

namespace partita {

void runExport(const Communicator&, const ExportArguments&, const std::string&) {
  throw AgreedError("export is not built in");
}

} // namespace partita
