#include "partita/comm/agree.hpp"
#include "partita/comm/threads.hpp"
#include "partita/core/log.hpp"
#include "partita/core/memory.hpp"
#include "partita/core/types.hpp"
#include "partita/core/version.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "commands.hpp"

namespace partita {

namespace {

constexpr int exit_failure = 1, exit_user_error = 2;

struct Arguments {
  TrainArguments train;
  EvaluateArguments evaluate;
  ExportArguments exporting;
  InfoArguments info;
  BenchArguments bench;
};

void describe(CLI::App& app, Arguments& arguments) {
  app.require_subcommand(0, 1)->allow_extras(); // what is left over is told by refuseExtras
  app.set_version_flag("--version", "partita " + versionString() + " (" + gitHash() + ")");
  app.footer("Flags that begin with --kokkos- go to Kokkos. Exit codes: 0 finished, 1 failure, 2 mistake in "
             "deck, data or "
             "command line.");
  const std::string override_help = "changes to the deck, e.g. run/seed=3 strategy/cuts=[2,4]";

  CLI::App* train = app.add_subcommand("train", "Train the network of a deck, on all ranks of mpirun");
  train->add_option("DECK", arguments.train.deck, "input deck (TOML); see `partita info --deck`")->required();
  train->add_option("section/key=value", arguments.train.overrides, override_help);
  train->add_option(
      "-d,--directory", arguments.train.run_directory,
      "run directory: deck.toml, history.csv, summary.json, parameters.h5 (default: nothing is kept)");
  train->add_flag("-n,--dry-run", arguments.train.dry_run,
                  "check deck and data, print the effective deck and the partition, and stop");
  train->add_option("--ranks", arguments.train.ranks, "with -n: plan for this many ranks")
      ->needs("-n")
      ->check(CLI::Range(1, 1 << 24));

  CLI::App* evaluate =
      app.add_subcommand("evaluate", "Test accuracy of a finished run, on any number of ranks");
  evaluate->add_option("RUN", arguments.evaluate.path, "run directory or parameters.h5")->required();
  evaluate->add_option("section/key=value", arguments.evaluate.overrides, override_help);

  evaluate
      ->add_option("--predictions", arguments.evaluate.predictions,
                   "write features, labels and logits of the test samples to this .npz")
      ->type_name("FILE");

  CLI::App* exporter =
      app.add_subcommand("export", "Write a trained network for other programs, as ONNX or NumPy");
  exporter->add_option("RUN", arguments.exporting.path, "run directory or parameters.h5")->required();
  exporter
      ->add_option("-o,--output", arguments.exporting.output,
                   "file to write; its ending, .onnx or .npz, says the format")
      ->type_name("FILE")
      ->required();

  CLI::App* info = app.add_subcommand("info", "What this build is made of, or what a parameter file holds");
  info->add_option("RUN", arguments.info.path, "run directory or parameters.h5");
  info->add_flag("--deck", arguments.info.deck_reference,
                 "print the reference of all deck parameters (Markdown)");

  CLI::App* bench =
      app.add_subcommand("bench", "Measure matrix products, memory and training steps on this machine");
  bench->add_option("--json", arguments.bench.json, "write a list of {name, value, unit}");
  bench->add_flag("--quick", arguments.bench.quick, "fewer repetitions: shows that it runs, measures badly");
  for (CLI::App* command : {train, evaluate, exporter, info, bench}) command->allow_extras();
}

/// Flags of Kokkos 3.4 to 5, which takes them itself and only murmurs about others.
bool isKokkosFlag(const std::string& word) {
  static const std::array<const char*, 16> flags{"help",
                                                 "threads",
                                                 "num-threads",
                                                 "numa",
                                                 "device-id",
                                                 "num-devices",
                                                 "ndevices",
                                                 "skip-device",
                                                 "disable-warnings",
                                                 "print-configuration",
                                                 "tune-internals",
                                                 "tools-libs",
                                                 "tools-library",
                                                 "tools-args",
                                                 "tools-help",
                                                 "map-device-id-by"};
  if (word.rfind("--kokkos-", 0) != 0) return false;
  const std::string name = word.substr(9, word.find('=') - 9);
  return std::find(flags.begin(), flags.end(), name) != flags.end();
}

/// What CLI11 has not understood: only Kokkos' own flags may be left, before the command or after it.
void refuseExtras(const CLI::App& app) {
  for (const std::string& extra : app.remaining(true)) {
    if (!isKokkosFlag(extra)) {
      throw AgreedError("command line: '" + extra + "' is not understood; see `partita --help`");
    }
  }
  if (app.get_subcommands().empty())
    throw AgreedError("command line: train, evaluate, export, info or bench? See `partita --help`");
}

/// The command line for Kokkos; with a number of threads where neither it nor the environment says one.
std::vector<std::string> kokkosArguments(const Communicator& world, int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  bool said = std::getenv("OMP_NUM_THREADS") != nullptr || std::getenv("KOKKOS_NUM_THREADS") != nullptr;
  for (const std::string& word : words) said = said || word.find("threads=") != std::string::npos;
  const int threads = threadsForThisRank(world);
  const char* const flag = KOKKOS_VERSION >= 30700 ? "--kokkos-num-threads=" : "--kokkos-threads=";
  if (!said) words.push_back(flag + std::to_string(threads));
  return words;
}

/// Kokkos on for the life of the object, with the memory counters.
class KokkosEnvironment {
 public:
  explicit KokkosEnvironment(std::vector<std::string> words) {
    std::vector<char*> pointers;
    pointers.reserve(words.size() + 1);
    for (std::string& word : words) pointers.push_back(word.data());
    int count = static_cast<int>(pointers.size());
    pointers.push_back(nullptr);
    Kokkos::initialize(count, pointers.data());
    AllocationCounter::start();
  }
  ~KokkosEnvironment() { Kokkos::finalize(); }
  KokkosEnvironment(const KokkosEnvironment&) = delete;
  KokkosEnvironment& operator=(const KokkosEnvironment&) = delete;
};

std::string joined(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) line += (i > 0 ? " " : "") + std::string(argv[i]);
  return line;
}

void dispatch(const Communicator& world, const CLI::App& app, const Arguments& arguments, int argc,
              char** argv) {
  const std::string command_line = joined(argc, argv);
  if (app.got_subcommand("train") && !prepareTrain(world, arguments.train)) return;
  if (app.got_subcommand("info") && !prepareInfo(world, arguments.info)) return;
  const KokkosEnvironment kokkos(kokkosArguments(world, argc, argv));
  if (app.got_subcommand("train")) runTrain(world, arguments.train, command_line);
  if (app.got_subcommand("evaluate")) runEvaluate(world, arguments.evaluate, command_line);
  if (app.got_subcommand("export")) runExport(world, arguments.exporting, command_line);
  if (app.got_subcommand("info")) runInfo(world, command_line);
  if (app.got_subcommand("bench")) runBench(world, arguments.bench, command_line);
}

int parseAndRun(const Communicator& world, int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Partita trains neural networks partitioned over ranks.", "partita");
  describe(app, arguments);
  try {
    app.parse(argc, argv);
    refuseExtras(app);
    dispatch(world, app, arguments, argc, argv);
    return 0;
  } catch (const CLI::Success& answer) { // help or version
    return world.rank() == 0 ? app.exit(answer) : 0;
  } catch (const CLI::ParseError& error) {
    if (world.rank() == 0)
      std::cerr << "partita: command line: " << error.what() << "; see `partita --help`\n";
    return exit_user_error;
  } catch (const AgreedError& error) {
    if (world.rank() == 0) {
      for (const std::string& message : error.messages()) std::cerr << "partita: " << message << '\n';
    }
    return exit_user_error;
  }
}

/// One rank alone has failed: tell and end the job, the others would wait for ever.
[[noreturn]] void endJob(int rank, const std::string& message, int code) {
  std::cerr << "partita: rank " << rank << ": " << message << std::endl;
  // Once it is told to kill, the launcher may drop what it has not passed on yet.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  MPI_Abort(MPI_COMM_WORLD, code);
  std::abort();
}

} // namespace

} // namespace partita

int main(int argc, char** argv) {
  using namespace partita;
  setenv("KOKKOS_DISABLE_WARNINGS", "1", 0); // advice on thread binding, from every rank
  const MpiEnvironment mpi(argc, argv);
  const Communicator world = Communicator::world();
  Log::setRank(world.rank());
  try {
    return parseAndRun(world, argc, argv);
  } catch (const UserError& error) {
    endJob(world.rank(), error.what(), exit_user_error);
  } catch (const std::exception& error) {
    endJob(world.rank(), error.what(), exit_failure);
  }
}
