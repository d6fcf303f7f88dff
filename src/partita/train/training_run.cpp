#include "partita/train/training_run.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/core/asynchronous.hpp"
#include "partita/core/clock.hpp"
#include "partita/core/log.hpp"
#include "partita/core/region.hpp"
#include "partita/io/output_file.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/io/stage_tensors.hpp"
#include "partita/io/write_run_file.hpp"
#include "partita/strategy/evaluation.hpp"
#include "partita/strategy/strategy.hpp"
#include "partita/train/banner.hpp"
#include "partita/train/monitor.hpp"
#include "partita/train/restart.hpp"
#include "partita/train/run_control.hpp"
#include "partita/train/run_directory.hpp"
#include "partita/train/setup.hpp"
#include "partita/train/summary.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>

namespace partita {

namespace {

void printTimes() {
  if (!PhaseTimes::enabled()) return;
  const auto seconds = PhaseTimes::seconds();
  double total = 0.0;
  for (const double value : seconds) total += value;
  Log::info("time of rank 0, phase by phase:");
  for (int i = 0; i < phase_count; ++i) {
    char line[80];
    std::snprintf(line, sizeof line, "  %-24s %9.3f s %6.1f %%", phaseName(static_cast<Phase>(i)),
                  seconds[static_cast<std::size_t>(i)], 100.0 * seconds[static_cast<std::size_t>(i)] / total);
    Log::info(line);
  }
}

/// Trains everything that the deck asks for; returns false if the run was ended early.
bool train(const ExecSpace& space, const RunContext& context) {
  PhaseTimes::enable(context.config.run.timing);
  PhaseTimes::reset();
  MPI_Pcontrol(1); // lets an MPI profiler separate training from set-up and evaluation
  const bool done = makeStrategy(context)->run(space);
  MPI_Pcontrol(0);
  return done;
}

/// Returns the floats of rank 0 on every rank.
std::vector<float> tellAll(const Communicator& world, const std::vector<float>& own) {
  const std::string bytes =
      tellAll(world, std::string(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(float)));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// The same on every rank, as files require it; only rank 0 is sure to have the features.
RunFacts factsOf(const Communicator& world, const RunConfig& deck, const DataSets& sets,
                 const Provenance& own) {
  RunFacts facts{writeDeck(deck),
                 sets.classes,
                 sets.shape,
                 tellAll(world, sets.shift),
                 tellAll(world, sets.scale),
                 sets.label_values,
                 {}};
  for (const auto& [name, value] : own) facts.provenance.emplace_back(name, tellAll(world, value));
  return facts;
}

/// Runs collective work on a file in a thread, if MPI allows that, so that this thread notices a file system
/// that hangs: HDF5 itself would wait forever. Throws what `work` throws, and RunError if PATH.partial has
/// not grown for `patience` seconds (0: never).
void doWatched(const std::string& path, std::int64_t patience, const std::function<void()>& work) {
  BackgroundThread thread(MpiEnvironment::threadsMayCall());
  std::atomic<bool> done{false};
  std::exception_ptr failure;
  thread.submit([&] {
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    done = true;
  });
  auto begin = Clock::now();
  std::uintmax_t size = 0;
  while (!done) {
    idleBriefly();
    if (patience == 0 || Clock::now() - begin <= std::chrono::seconds(patience)) continue;
    std::error_code none;
    const std::uintmax_t now = std::filesystem::file_size(path + ".partial", none);
    if (none || now == size)
      throw RunError(path + ": is not written after " + std::to_string(patience) + " s (run/watchdog)");
    size = now;
    begin = Clock::now();
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

/// Writes `parameters.h5`: like a checkpoint, with parameters and statistics alone.
void writeParameters(const std::string& path, const RunFacts& facts, const Setup& setup) {
  RunFileContent content;
  content.facts = facts;
  for (const char* kind : {parameters_kind, statistics_kind}) {
    for (const TensorRecord& tensor : networkTensors(setup.plans.partition, kind))
      content.tensors.push_back(tensor);
  }
  content.parts.assign(content.tensors.size(), {});
  std::vector<std::vector<Real>> copies;
  const auto place = [&](const char* kind, const Stage& stage, const StoredVector& values) {
    copies.emplace_back(static_cast<std::size_t>(values.size()));
    values.copyOut(ExecSpace(), 0, values.size(), copies.back().data());
    placeValues(content, kind, stage, copies.back().data());
  };
  for (const auto& local : setup.stages) {
    if (!setup.grid.speaks()) break;
    place(parameters_kind, local->stage, local->stage.masters());
    place(statistics_kind, local->stage, StoredVector(local->stage.statistics()));
  }
  const Communicator comm = setup.grid.world().duplicate();
  doWatched(path, setup.config.run.watchdog, [&] {
    writeRunFile(comm, path + ".partial", content, 0);
    collectively(comm, [&] {
      if (comm.rank() == 0) publishFile(path + ".partial", path);
    });
  });
}

/// Reports how a run was stopped before its end.
Outcome tellStop(const RunControl& control, const Checkpointer& checkpointer, const RunDirectory& directory,
                 bool kept) {
  const std::string stopped = "stopped (" + control.stopReason() + ")";
  if (!directory.exists()) {
    Log::error(stopped + "; without a run directory (-d) nothing was kept");
    return Outcome::failed;
  }
  if (!kept) {
    Log::error(stopped + ", but the last checkpoint could not be written");
    return Outcome::failed;
  }
  Log::info(stopped + "; " + checkpointer.lastFile() + " is complete: go on with -r latest");
  return Outcome::stopped;
}

/// The weights with which the stages add up; empty if all are 1. Collective.
std::vector<double> exitWeights(const Setup& setup) {
  std::vector<double> weights(setup.plans.partition.stages.size(), 0.0);
  for (const auto& local : setup.stages)
    if (setup.grid.speaks()) weights[static_cast<std::size_t>(local->index())] = local->exit_weight;
  setup.grid.world().sum(weights);
  const bool equal = std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 1.0; });
  return equal ? std::vector<double>{} : weights;
}

/// Writes the result files of a finished run.
void writeResults(const Summary& summary, RunFacts facts, const Setup& setup, Monitor& monitor,
                  const RunDirectory& directory) {
  facts.exit_weights = exitWeights(setup);
  collectively(setup.grid.world(), [&] { monitor.flushHistory(); });
  if (directory.exists()) writeParameters(directory.file("parameters.h5"), facts, setup);
  finishSummary(summary, setup.config, setup.plans.partition, setup.grid, directory.file("summary.json"));
}

} // namespace

Outcome trainDeck(const Communicator& world, const RunConfig& deck, const RunDirectory& directory,
                  const RunOptions& options) {
  const std::string& restart_file = options.start.file;
  const ExecSpace space;
  Provenance provenance = showBanner(space, world, options.command_line);
  Setup setup(world, deck, directory.scratch());
  provenance.emplace_back("messages", showMessagePaths(setup.grid));
  const RunConfig& config = setup.config;
  const Plans& plans = setup.plans;
  showPartition(config, plans.partition, setup.grid.plan(), deviceKind(setup.grid.paths()));

  const RunLength length = planRunLength(config, plans.sets.train.size());
  Restart restart;
  collectively(world, [&] {
    restart =
        planRestart(restart_file, deck, config, plans.partition, length, plans.sets, setup.grid.replicas());
    if (!restart_file.empty())
      readParameters(*restart.opened, setup.stagePointers<Stage*>(),
                     restart.replicaOf(config, setup.grid.replica()));
  });
  const std::int64_t first = length.runStep(restart.start);
  directory.prepare(world, writeDeck(deck), options.start,
                    {restart.keeps_state && first >= restart.found->run_step,
                     restart.keeps_state && first == length.total()});
  if (world.rank() == 0) setup.grid.traffic = restart.traffic();

  Mailbox mailbox(world);
  std::unique_ptr<Monitor> listener;
  collectively(world, [&] {
    listener = std::make_unique<Monitor>(config, plans.partition, setup.grid, mailbox,
                                         directory.file("history.csv"), plans.sets.classes, length,
                                         Monitor::Start{restart.start, restart.elapsed()});
  });
  Monitor& monitor = *listener;
  TrainingClock clock(restart.spent());
  const RunFacts facts = factsOf(world, deck, plans.sets, provenance);
  Checkpointer checkpointer({config, plans.partition, setup.grid, setup.stages, length, clock, monitor,
                             directory, facts, static_cast<std::int64_t>(plans.sets.train.size())},
                            MpiEnvironment::threadsMayCall());
  RunControl control(setup.grid, config, length, restart, directory, checkpointer, mailbox,
                     options.time_limit_seconds);
  std::unique_ptr<ScheduleTrace> trace;
  if (config.run.trace > 0) trace = std::make_unique<ScheduleTrace>(setup.grid);
  const RunContext context{
      config,  plans.partition, setup.grid, plans.sets,    setup.stages,        monitor,
      control, clock,           length,     restart.start, directory.scratch(), trace.get()};
  const bool done = train(space, context);
  const bool kept = control.finish();
  mailbox.close();
  monitor.pump();
  printTimes();
  if (!done) {
    if (trace != nullptr) trace->write(directory.file("trace.json"));
    return tellStop(control, checkpointer, directory, kept);
  }

  Summary summary;
  summary.evaluation = evaluateJoined(space, config, setup.grid, setup.stages, plans.sets, plans.sets.test);
  summary.parameters_hash = hashParameters(setup.grid, setup.stagePointers<const Stage*>());
  summary.times = clock.times();
  summary.length = length;
  summary.provenance = provenance;
  try {
    writeResults(summary, facts, setup, monitor, directory);
  } catch (const AgreedError& error) { // at this point the disk is at fault, not the deck
    for (const std::string& message : error.messages()) Log::error(message);
    return Outcome::failed;
  }
  if (trace != nullptr) trace->write(directory.file("trace.json"));
  return Outcome::finished;
}

} // namespace partita
