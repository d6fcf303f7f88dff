#include "partita/comm/agree.hpp"
#include "partita/core/log.hpp"
#include "partita/io/parameters_file.hpp"
#include "partita/train/banner.hpp"
#include "partita/train/run_directory.hpp"

#include <sstream>

#include "commands.hpp"

namespace partita {

namespace {

void showParameters(const std::string& path) {
  const std::string file = parameterFileOf(path);
  const StoredParameters stored = inspectParameters(file);
  Log::info(file + ": parameters of a trained network\n\n" + stored.deck);
  std::int64_t total = 0;
  for (const StoredTensor& tensor : stored.tensors) {
    std::string extents;
    std::int64_t size = 1;
    for (const std::int64_t extent : tensor.extents) {
      extents += (extents.empty() ? "" : " x ") + std::to_string(extent);
      size *= extent;
    }
    total += size;
    Log::info("  " + tensor.layer + "/" + tensor.name + "  " + extents);
  }
  Log::info("  " + std::to_string(total) + " parameters");
}

} // namespace

bool prepareInfo(const Communicator& world, const InfoArguments& arguments) {
  if (arguments.path.empty()) return true;
  collectively(world, [&] {
    if (world.rank() == 0) showParameters(arguments.path);
  });
  return false;
}

void runInfo(const Communicator& world, const std::string& command_line) {
  showBanner(ExecSpace(), world, command_line);
  std::ostringstream configuration;
  Kokkos::print_configuration(configuration, false);
  Log::info(configuration.str());
}

} // namespace partita
