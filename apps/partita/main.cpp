#include "partita/comm/agree.hpp"
#include "partita/comm/end_job.hpp"
#include "partita/comm/link.hpp"
#include "partita/core/log.hpp"

#include <hdf5.h>

#include <cstdlib>
#include <exception>
#include <iostream>

#include "command_line.hpp"
#include "kokkos_environment.hpp"

namespace partita {

namespace {

std::string joined(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) line += (i > 0 ? " " : "") + std::string(argv[i]);
  return line;
}

/// All ranks have the same variable; later it would be read in the middle of what they do together.
void checkLinks() {
  try {
    linkModel();
  } catch (const UserError& error) {
    throw AgreedError(error.messages());
  }
}

int dispatch(const Communicator& world, const CLI::App& app, const Arguments& arguments, int argc,
             char** argv) {
  checkLinks();
  const std::string command_line = joined(argc, argv);
  std::optional<TrainPlan> plan;
  if (app.got_subcommand("train")) {
    plan = prepareTrain(world, arguments.train);
    if (!plan) return 0;
  }
  if (app.got_subcommand("info") && showPage(app, arguments.info)) return 0;
  if (app.got_subcommand("info") && !prepareInfo(world, arguments.info)) return 0;
  const KokkosEnvironment kokkos(kokkosArguments(world, argc, argv));
  if (plan) return runTrain(world, *plan, arguments.train, command_line);
  if (app.got_subcommand("evaluate")) runEvaluate(world, arguments.evaluate, command_line);
  if (app.got_subcommand("export")) runExport(world, arguments.exports, command_line);
  if (app.got_subcommand("info")) runInfo(world, command_line);
  if (app.got_subcommand("bench")) runBench(world, arguments.bench, command_line);
  return 0;
}

int parseAndRun(const Communicator& world, int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Partita trains neural networks partitioned over ranks.", "partita");
  defineCommandLine(app, arguments);
  try {
    app.parse(argc, argv);
    checkCommandLine(app, arguments);
    return dispatch(world, app, arguments, argc, argv);
  } catch (const CLI::Success& answer) { // help or version
    return world.rank() == 0 ? app.exit(answer) : 0;
  } catch (const CLI::ParseError& error) {
    if (world.rank() == 0) std::cerr << "partita: command line: " << error.what() << helpHint(app) << '\n';
    return exit_user_error;
  } catch (const AgreedError& error) {
    if (world.rank() == 0) {
      for (const std::string& message : error.messages()) std::cerr << "partita: " << message << '\n';
    }
    return exit_user_error;
  }
}

int rank_of_this = 0;

/// What this rank alone has met ends the job, without unwinding: messages under way and the thread that
/// writes a checkpoint go on reading memory that destructors would free.
[[noreturn]] void endByException() {
  const std::exception_ptr thrown = std::current_exception();
  try {
    if (thrown != nullptr) std::rethrow_exception(thrown);
  } catch (const UserError& error) {
    endJob(rank_of_this, error.what(), exit_user_error);
  } catch (const std::exception& error) {
    endJob(rank_of_this, error.what(), exit_failure);
  } catch (...) { // told below
  }
  endJob(rank_of_this, "ended without a reason", exit_failure);
}

} // namespace

} // namespace partita

int main(int argc, char** argv) {
  using namespace partita;
  setenv("KOKKOS_DISABLE_WARNINGS", "1", 0); // advice on thread binding, from every rank
  // Files get their names when they are complete, so that nobody reads what another one writes; and some file
  // systems of clusters know no locks.
  setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); // our own messages say it in one line, at the end too
  const MpiEnvironment mpi(argc, argv);
  const Communicator world = Communicator::world();
  Log::setRank(world.rank());
  rank_of_this = world.rank();
  std::set_terminate(endByException);
  return parseAndRun(world, argc, argv);
}
