#include "partita/comm/agree.hpp"
#include "partita/comm/link.hpp"
#include "partita/comm/loss_watch.hpp"
#include "partita/config/files.hpp"
#include "partita/core/error.hpp"
#include "partita/core/log.hpp"
#include "partita/io/output_file.hpp"
#include "partita/train/evaluate_run.hpp"
#include "partita/train/export_run.hpp"
#include "partita/train/signals.hpp"

#include <hdf5.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <iostream>
#include <optional>
#include <unistd.h>

#include "command_line.hpp"
#include "kokkos_environment.hpp"

namespace partita {

namespace {

/// The command line for banner and files, cleaned and shortened: arbitrary bytes and lengths would make these
/// unreadable.
std::string commandText(int argc, char** argv) {
  constexpr std::size_t most = 8192;
  std::string line;
  for (int i = 0; i < argc; ++i) line += (i > 0 ? " " : "") + std::string(argv[i]);
  const std::size_t whole = line.size();
  if (whole > most) line = line.substr(0, most) + " ... (" + std::to_string(whole) + " bytes)";
  return validUtf8(line);
}

/// Opens standard descriptors that are closed: the system would give them to the next files that are opened,
/// and printed text would end up in those files. Opened like this, they make printing fail instead.
void occupyStandardDescriptors() {
  int file = open("/dev/null", O_RDONLY);
  while (file >= 0 && file <= STDERR_FILENO) file = open("/dev/null", O_RDONLY);
  if (file >= 0) close(file);
}

/// Open MPI prepares shared file positions for each file, although HDF5 does not use them. Its component `sm`
/// makes a semaphore that is named after the file alone; one that a killed process leaves would block all
/// later runs on the node. `lockedfile` makes a lock file, whose path has room for 256 characters.
/// `individual` makes two files per rank, so only long paths use it. A run removes such files that a killed
/// run left.
void chooseSharedPositions(int argc, char** argv) {
  constexpr std::size_t longest_directory = 150; // characters
  const bool has_long =
      std::any_of(argv, argv + argc, [](const char* word) { return std::strlen(word) > longest_directory; });
  setenv("OMPI_MCA_sharedfp", has_long ? "^sm,lockedfile" : "^sm", 0);
}

/// Removes half-written output before the program ends.
void endBySignal(int signal) {
  OutputFile::removeUnfinished();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

/// A limit on the size of files makes the write fail, as a full disk does. Training handles the other signals
/// itself; it continues without a reader of its output if it has a run directory.
void chooseSignals(const CLI::App& app, const TrainArguments& train) {
  std::signal(SIGXFSZ, SIG_IGN);
  if (app.got_subcommand("train")) {
    if (!train.run_directory.empty() && !train.dry_run) std::signal(SIGPIPE, SIG_IGN);
    return;
  }
  std::signal(SIGUSR1, SIG_IGN); // there is no state for a checkpoint
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGPIPE, SIGUSR2}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) std::signal(signal, endBySignal);
  }
}

/// The exit code of a successful command: its printed output is its result, unless there is a run directory.
int checkOutput(const Communicator& world, const TrainArguments& train) {
  if (world.rank() != 0) return 0;
  const bool streams = std::cout.flush().good();
  const std::string failure = streams ? Log::failure() : "it is closed, or the disk is full";
  if (failure.empty()) return 0;
  const bool kept = !train.run_directory.empty() && !train.dry_run;
  const std::string message = "standard output could not be written: " + failure;
  kept ? Log::warning(message) : Log::error(message);
  return kept ? 0 : exit_failure;
}

/// Runs before any collective operation, which would read the variable. All ranks have the same one.
void checkLinks() {
  try {
    linkModel();
  } catch (const UserError& error) {
    throw AgreedError(error.messages());
  }
}

/// The commands of `plan` that measure nothing.
void runPlan(const Communicator& world, const CLI::App& plan, const Arguments& arguments) {
  if (plan.got_subcommand("search")) return runSearch(world, arguments.search);
  collectively(world, [&] {
    if (world.rank() != 0) return;
    if (plan.got_subcommand("predict")) runPredict(arguments.predict);
    if (plan.got_subcommand("deck")) runChooseDeck(arguments.deck);
    if (plan.got_subcommand("schedule")) runSchedule(arguments.schedule);
    if (plan.got_subcommand("place")) runPlace(arguments.place, world.size());
  });
}

int dispatch(const Communicator& world, const CLI::App& app, const Arguments& arguments, int argc,
             char** argv) {
  const std::string command_line = commandText(argc, argv);
  std::optional<TrainPlan> plan;
  if (app.got_subcommand("train")) {
    plan = prepareTrain(world, arguments.train);
    if (!plan) return 0;
  }
  if (app.got_subcommand("info") && showPage(app, arguments.info)) return 0;
  if (app.got_subcommand("info") && !prepareInfo(world, arguments.info)) return 0;
  if (app.got_subcommand("plan") && !app.get_subcommand("plan")->got_subcommand("calibrate")) {
    runPlan(world, *app.get_subcommand("plan"), arguments);
    return 0;
  }
  const KokkosEnvironment kokkos(kokkosArguments(world, argc, argv));
  if (plan) return runTrain(world, *plan, arguments.train, command_line);
  if (app.got_subcommand("evaluate")) {
    const EvaluateArguments& asked = arguments.evaluate;
    evaluateRun(world, {asked.path, asked.overrides, asked.predictions, asked.overwrite, asked.stages},
                command_line);
  }
  if (app.got_subcommand("export"))
    exportRun(world, arguments.exports.path, arguments.exports.output, arguments.exports.stages,
              arguments.exports.overwrite, command_line);
  if (app.got_subcommand("info")) runInfo(world, command_line);
  if (app.got_subcommand("plan")) return runCalibrate(world, arguments.calibrate, command_line);
  if (app.got_subcommand("bench")) runBench(world, arguments.bench, command_line);
  return 0;
}

/// The library's "--x: 1 required FILE missing" and "--x: At Most 1 required but received 2" in plain words.
std::string wrongNumberOfValues(const std::string& text) {
  const std::string option = text.substr(0, text.find(':'));
  const bool many = text.find("At Most") != std::string::npos;
  const std::string message = many ? ": is given more than once" : ": its value is missing";
  return option + message;
}

/// Requires the same command line on every rank, otherwise all ranks refuse it: their collective operations
/// would never end. Throws CLI::Success if help or version was requested.
void parseTogether(const Communicator& world, CLI::App& app, Arguments& arguments, int argc, char** argv) {
  std::string what = "help", failure;
  std::exception_ptr answer;
  try {
    app.parse(argc, argv);
    checkCommandLine(app, arguments);
    what = essence(app, arguments);
  } catch (const CLI::Success&) {
    answer = std::current_exception();
  } catch (const CLI::ArgumentMismatch& error) {
    failure = "command line: " + wrongNumberOfValues(error.what()) + helpHint(app);
  } catch (const CLI::ParseError& error) {
    failure = "command line: " + std::string(error.what()) + helpHint(app);
  } catch (const UserError& error) {
    failure = error.what();
  }
  collectively(world, [&] {
    if (!failure.empty()) throw UserError(failure);
  });
  requireSame(world, what, "command line");
  if (answer != nullptr) std::rethrow_exception(answer);
}

int parseAndRun(const Communicator& world, int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Partita trains neural networks partitioned over ranks.", "partita");
  defineCommandLine(app, arguments);
  try {
    checkLinks();
    parseTogether(world, app, arguments, argc, argv);
    chooseSignals(app, arguments.train);
    const int code = dispatch(world, app, arguments, argc, argv);
    return code != 0 ? code : checkOutput(world, arguments.train);
  } catch (const CLI::Success& answer) { // help or version
    const int code = world.rank() == 0 ? app.exit(answer) : 0;
    return code != 0 ? code : checkOutput(world, {});
  } catch (const AgreedError& error) {
    if (world.rank() == 0) {
      for (const std::string& message : error.messages()) std::cerr << ("partita: " + message + '\n');
    }
    return error.bySystem() ? exit_failure : exit_user_error;
  }
}

int rank_of_this = 0;

/// An error on this rank alone ends the job, without unwinding: messages under way and the thread that writes
/// a checkpoint still read memory that destructors would free.
[[noreturn]] void endByException() {
  OutputFile::removeUnfinished();
  const std::exception_ptr thrown = std::current_exception();
  try {
    if (thrown != nullptr) std::rethrow_exception(thrown);
  } catch (const UserError& error) {
    endJob(rank_of_this, error.what(), error.bySystem() ? exit_failure : exit_user_error);
  } catch (const std::exception& error) {
    endJob(rank_of_this, textForUser(error), exit_failure);
  } catch (...) { // reported below
  }
  endJob(rank_of_this, "ended without an error message; this is a defect, please report it", exit_failure);
}

} // namespace

} // namespace partita

int main(int argc, char** argv) {
  using namespace partita;
  Signals::recordRequests();
  occupyStandardDescriptors();
  setenv("KOKKOS_DISABLE_WARNINGS", "1", 0); // advice on thread binding, from every rank
  // Files are renamed when they are complete, so nobody reads a file that is being written; and some cluster
  // file systems do not support locks.
  setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0);
  chooseSharedPositions(argc, argv);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); // our own messages report errors in one line, also at exit
  chooseDevice(argc, argv);
  startWithoutDaemon();
  const MpiEnvironment mpi(argc, argv);
  const Communicator world = Communicator::world();
  Log::setRank(world.rank());
  rank_of_this = world.rank();
  std::set_terminate(endByException);
  beforeJobEnds(OutputFile::removeUnfinished);
  std::optional<LossWatch> losses;
  constexpr double patience = 10.0; // s
  if (LossWatch::launcherGoesOn() && world.size() > 1) losses.emplace(world, LossWatch::After::end, patience);
  const int code = parseAndRun(world, argc, argv);
  if (LossWatch::anyLost()) LossWatch::leaveProcess(code); // MPI_Finalize would wait for lost ranks
  return code;
}
