#include "partita/train/begun_run.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/files.hpp"
#include "partita/config/user_error.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/core/log.hpp"
#include "partita/io/stage_tensors.hpp"
#include "partita/strategy/strategy.hpp"
#include "partita/train/banner.hpp"

#include <utility>

namespace partita {

namespace {

/// In place of a file to continue from: the state kept by rank 0, which all ranks have.
Restart restartFrom(const MeetingState& state, const RunLength& length, std::int64_t samples,
                    std::int64_t replicas) {
  Restart restart;
  restart.start = state.position;
  restart.kept_step = state.kept_step;
  restart.asked = state.asked;
  restart.keeps_state = restart.same_stages = true;
  RunProgress& found = restart.found.emplace();
  found.position = state.position;
  // A checkpoint that was not finished is written again.
  found.run_step = state.work == MeetingState::Work::begun ? length.runStep(state.position) : -1;
  found.samples = samples;
  found.per_epoch = length.per_epoch;
  found.training_seconds = state.times.training;
  found.evaluation_seconds = state.times.evaluation;
  found.elapsed_seconds = state.times.training + state.times.evaluation;
  found.traffic = state.traffic;
  found.replicas = replicas;
  found.numbers = state.numbers;
  return restart;
}

} // namespace

BegunRun::BegunRun(const ExecSpace& space, const Communicator& world, const RunConfig& deck,
                   const RunDirectory& directory, const RunStart& start, Provenance of_banner,
                   Continued& continued)
    : setup(world, deck, directory.scratch()), provenance(std::move(of_banner)) {
  provenance.emplace_back("messages", showMessagePaths(setup.grid));
  showPartition(deck, setup.config, setup.plans.partition, setup.grid.plan(), deviceKind(setup.grid.paths()));
  const bool compares = !setup.config.run.cluster.empty();
  const std::int64_t on_node = compares ? world.maximum(std::int64_t{world.node().size()}) : 0;
  collectively(world, [&] { predict(on_node); });
  length = planRunLength(setup.config, setup.plans.sets.train.size());
  const bool goes_on = continued.state.any();
  const std::string& file = continued.prepared ? continued.file : start.file;
  planBeginning(world, deck, goes_on ? "" : file, continued.state);
  for (const auto& local : setup.stages)
    if (goes_on) local->stage.setParameters(space, continued.state.parameters.data());
  checkDirectory(world, directory);
  if (!continued.prepared) {
    continued.file = directory.prepare(world, writeDeck(continued.deck), start, takenOver());
    if (directory.exists() && world.rank() == 0)
      failureOf([&] { // those that cannot be listed stay
        for (const std::string& path : checkpointsIn(directory.path())) continued.checkpoints->add(path);
      });
  }
  continued.prepared = true;
  if (world.rank() == 0 || goes_on) setup.grid.traffic = restart.traffic();
}

void BegunRun::predict(std::int64_t ranks_on_node) {
  const Plans& plans = setup.plans;
  predicted = predictedCost(setup.config, plans.sets, plans.partition, plans.grid, ranks_on_node);
  if (predicted)
    for (const std::string& note : predicted->notes) Log::warnOnce(note);
  forecast = predictedRun(setup.config, plans.sets, plans.grid);
}

/// `file` empty: the run starts afresh, or from a state that its ranks have. Collective.
void BegunRun::planBeginning(const Communicator& world, const RunConfig& deck, const std::string& file,
                             const MeetingState& state) {
  const Plans& plans = setup.plans;
  const int replicas = setup.grid.replicas();
  const auto opened = file.empty() ? nullptr : std::make_shared<SharedRunFile>(world, file);
  collectively(world, [&] {
    restart = planRestart(opened, deck, setup.config, plans.partition, length, plans.sets, replicas);
    if (state.any()) restart = restartFrom(state, length, samples(), replicas);
  });
  if (opened != nullptr) readValues(world, *opened);
}

/// Replicas read parameters together, unless each has values of its own. Collective.
void BegunRun::readValues(const Communicator& world, SharedRunFile& file) {
  const Grid& grid = setup.grid;
  const bool differ = restart.replicasDiffer(setup.config);
  collectively(world, [&] { file.open(differ ? nullptr : &grid.peers(), grid.ownsStages()); });
  // Whatever fails here fails for all replicas of a stage, so none waits for another.
  collectively(world, [&] {
    readParameters(file, setup.stagePointers<Stage*>(), restart.replicaOf(setup.config, grid.replica()));
  });
}

/// Throws before anything in the directory is changed. Collective.
void BegunRun::checkDirectory(const Communicator& world, const RunDirectory& directory) {
  const RunConfig& config = setup.config;
  collectively(world, [&] {
    directory.requireInPlace(); // by now another run may use its path
    const bool logs = config.run.decisions && directory.exists() && restart.opened != nullptr;
    if (world.rank() == 0 && logs) checkContinuedLog(directory); // other ranks may see its files late
  });
  collectively(world, [&] {
    if (restart.start.phase != RunPhase::training) return;
    const StrategyRules& rules = rulesOf(config.strategy);
    rules.checkFiles(config, length, samples(), directory.scratch());
    activation_files = rules.takeFiles(config, length, samples(), directory.scratch(), setup.stages);
  });
}

/// Throws UserError unless the log of decisions in the directory goes on where the run continues.
void BegunRun::checkContinuedLog(const RunDirectory& directory) const {
  const std::string log = directory.file("decisions.csv");
  if (!restart.found || !directory.owns(restart.file) || !regularFileExists(log))
    throw UserError("run/decisions: the log must begin with the run, but this run continues from " +
                    restart.file + " without its log; set run/decisions=false");
  if (!sameCourse())
    throw UserError("run/decisions: the log cannot continue, because with this deck the run goes back from "
                    "the step of " +
                    restart.file + " or begins again; set run/decisions=false");
  const LoggedRun run{log, restart.file, restart.opened->facts().deck, restart.found->numbers,
                      setup.grid.replicas()};
  rulesOf(setup.config.strategy).checkLog(setup.config, run);
}

TakenOver BegunRun::takenOver() const {
  const bool same_course = sameCourse();
  return {same_course, same_course && setup.config.run.decisions,
          restart.keeps_state && firstStep() == length.total()};
}

} // namespace partita
