#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/core/clock.hpp"
#include "partita/core/stored_vector.hpp"
#include "partita/io/run_file.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace partita {

/// The checkpoints that a run may remove: those in its directory at its start, and those that it has written
/// since. A file that somebody else puts there later is not among them, whatever its name.
class OwnCheckpoints {
 public:
  void add(const std::string& path);
  /// Is it one of them, and still the same file?
  bool have(const std::string& path) const;

 private:
  using Place = std::pair<std::uint64_t, std::uint64_t>; // device and number of the file
  static std::optional<Place> placeOf(const std::string& path);
  mutable std::mutex _mutex; ///< a thread that hung while it gave a file its name may go on beside the next
  std::map<std::string, Place> _places; // by name in the folder
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
  bool again = false; ///< has this run given the name to a file before? The new one takes its place
  std::function<void()> require_place; ///< throws UserError if the run directory is elsewhere by now
  /// The traffic, times, scores, updates and numbers of the strategy in its progress, and the reports, are
  /// those of this rank, and later the sums over all. What another rank knows is 0.
  RunFileContent content;
  std::vector<double> reports; ///< sent by each rank
  int compression = 0;
  Clock::time_point start = Clock::now();
  double still_seconds = 0.0, write_seconds = 0.0;
  std::string failure;        ///< empty: the file is whole and has its name
  bool slow_reported = false; ///< the run has warned that writing takes long
  std::vector<std::string> set_aside;
  std::vector<std::string> removed; ///< older checkpoints, newest first
  std::shared_ptr<OwnCheckpoints> own = std::make_shared<OwnCheckpoints>();
  std::atomic<State> state{State::copying};

  /// The first part of the thread's work: afterwards the next update cannot change the state.
  void copy();
  /// The second part: writes the file, under a name that marks it as incomplete. A failure known to all ranks
  /// leaves the run without this checkpoint; any other is known to this rank alone, and the others would wait
  /// for it, so it ends the job. Collective.
  void write(const Communicator& comm);
  /// On rank 0, when the file is written: renames it once the growing files of the run are on the disk, sets
  /// aside later checkpoints of an earlier run, and keeps the newest `keep` of its own.
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
