#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/core/clock.hpp"
#include "partita/core/stored_vector.hpp"
#include "partita/io/run_file.hpp"

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace partita {

/// Numbers of a run that are summed over ranks: each rank sets its own, and leaves the others 0.
struct RunNumbers {
  double between_stages = 0.0, between_replicas = 0.0, between_parts = 0.0, evaluation = 0.0; ///< bytes
  double part_messages = 0.0;
  double elapsed_seconds = 0.0, training_seconds = 0.0, evaluation_seconds = 0.0; ///< of rank 0
  std::vector<LossSums> scores;                                                   ///< as in RunProgress
  std::vector<UpdateState> updates;                                               ///< as in RunProgress
  std::vector<double> strategy;                                                   ///< as in RunProgress
  std::vector<double> reports;                                                    ///< sent by each rank

  /// Collective; the vectors have the same length on every rank.
  void sum(const Communicator& comm);
  void copyTo(RunProgress& progress) const; ///< all but the reports
};

/// A checkpoint under way: the input of the writing thread, and its result.
struct CheckpointJob {
  enum class State { copying, writing, written, naming, named };
  struct Copy {
    StoredVector from; ///< keeps the memory of a finished stage alive
    std::int64_t begin, size;
    Real* to;
  };

  std::vector<Copy> copies; ///< to be made by the thread
  std::string partial, final_name;
  std::function<void()> require_place; ///< throws UserError if the run directory is elsewhere by now
  RunFileContent content;
  RunNumbers numbers; ///< of this rank; later the sum over all
  int compression = 0;
  Clock::time_point start = Clock::now();
  double still_seconds = 0.0, write_seconds = 0.0;
  std::string failure;        ///< empty: the file is whole and has its name
  bool slow_reported = false; ///< the run has warned that writing takes long
  std::vector<std::string> set_aside;
  std::vector<std::string> removed; ///< older checkpoints, newest first
  std::atomic<State> state{State::copying};

  /// The first part of the thread's work: afterwards the next update cannot change the state.
  void copy();
  /// The second part: writes the file, under a name that marks it as incomplete. A failure known to all ranks
  /// leaves the run without this checkpoint; any other is known to this rank alone, and the others would wait
  /// for it, so it ends the job. Collective.
  void write(const Communicator& comm);
  /// On rank 0, when the file is written: renames it once the growing files of the run are on the disk, sets
  /// aside later checkpoints of an earlier run, and keeps the newest `keep`.
  void publish(const std::string& run_directory, std::size_t keep);

 private:
  void giveFinalName(const std::string& run_directory);
};

/// Runs `work` and returns the error as text; empty if there is none.
template <class Work>
std::string failureOf(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

} // namespace partita
