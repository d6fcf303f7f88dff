#include "partita/comm/agree.hpp"
#include "partita/config/text.hpp"
#include "partita/core/log.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/schedule/operator_schedule.hpp"
#include "partita/train/banner.hpp"
#include "partita/train/run_files.hpp"

#include <algorithm>
#include <sstream>

#include "commands.hpp"

namespace partita {

namespace {

/// "-1 1"; the first 20 if there are many values.
std::string numbers(const std::vector<std::int64_t>& values) {
  constexpr std::size_t most = 20;
  const std::size_t count = std::min(values.size(), most);
  return joined(std::vector<std::int64_t>(values.begin(), values.begin() + count), " ") +
         (values.size() > most ? " ..." : "");
}

void showProgress(const RunProgress& progress, const std::string& deck) {
  const Position& position = progress.position;
  Log::info("  step " + std::to_string(progress.run_step) + " of the run: " + describePhase(position, deck) +
            ", step " + std::to_string(position.step) + " (epoch " +
            std::to_string(position.step / progress.per_epoch) + ", batch " +
            std::to_string(position.step % progress.per_epoch) + " of " + std::to_string(progress.per_epoch) +
            ")");
  Log::info("  " + counted(progress.stages, "stage") + " x " + counted(progress.replicas, "replica") +
            " on " + counted(progress.ranks, "rank") + "; " + formatSeconds(progress.elapsed_seconds) +
            " so far");
  for (std::size_t stage = 0; stage < progress.updates.size(); ++stage) {
    const UpdateState& update = progress.updates[stage];
    Log::info("  stage " + std::to_string(stage + 1) + ": " +
              counted(static_cast<std::int64_t>(update.steps), "step") + " taken, loss scale " +
              std::to_string(static_cast<std::int64_t>(update.loss_scale)));
  }
}

void showFile(const std::string& path) {
  const RunFile file(parameterFileOf(path));
  file.verify();
  const RunFacts facts = file.facts();
  Log::info(file.path() + ": " + (file.isCheckpoint() ? "checkpoint" : "parameters of a trained network") +
            ", complete, all checksums correct\n\n" + facts.deck);
  if (file.isCheckpoint()) showProgress(file.progress(), facts.deck);
  Log::info("  samples of " + joined(facts.shape, " x ") + " values, " + counted(facts.classes, "class"));
  if (!facts.label_values.empty()) Log::info("  labels in the data files: " + numbers(facts.label_values));
  std::int64_t network = 0, heads = 0;
  for (const TensorRecord& tensor : file.tensors()) {
    if (tensor.kind == parameters_kind) (isOfHead(tensor.layer) ? heads : network) += tensor.size();
    Log::info("  " + tensor.path().substr(1) + "  " + joined(tensor.extents, " x "));
  }
  Log::info("  " + counted(network, "parameter") +
            (heads > 0 ? ", and " + std::to_string(heads) + " in the heads of stages" : ""));
  for (const auto& [name, value] : facts.provenance) Log::info("  " + name + ": " + value);
}

/// What `partita plan schedule --engine` takes.
std::string engines() {
  std::vector<std::string> here, missing;
  for (std::size_t i = 0; i < namesOf<ScheduleEngine>().size(); ++i) {
    const auto engine = static_cast<ScheduleEngine>(i);
    const std::string version = engineVersion(engine);
    version.empty() ? missing.push_back(nameOf(engine))
                    : here.push_back(nameOf(engine) + " (" + version + ")");
  }
  return "engines " + joined(here, ", ") + (missing.empty() ? "" : "; without " + joined(missing, ", "));
}

} // namespace

bool prepareInfo(const Communicator& world, const InfoArguments& arguments) {
  if (arguments.path.empty()) return true;
  collectively(world, [&] {
    if (world.rank() == 0) showFile(arguments.path);
  });
  return false;
}

void runInfo(const Communicator& world, const std::string& command_line) {
  showBanner(ExecSpace(), world, command_line);
  Log::info("  schedules     " + engines());
  std::ostringstream configuration;
  Kokkos::print_configuration(configuration, false);
  Log::info(configuration.str());
}

} // namespace partita
