#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/config/run_config.hpp"
#include "partita/train/run_directory.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace partita {

/// What the command line requests; filled in command_line.cpp, one struct per subcommand.
struct TrainArguments {
  std::string deck; ///< if empty, with `restart`: the deck stored in the checkpoint
  std::vector<std::string> overrides;
  std::string run_directory;
  std::string restart;                 ///< "latest", a checkpoint, or empty: start afresh
  std::string replay;                  ///< decisions of an asynchronous run to repeat; empty: none
  std::int64_t time_limit_seconds = 0; ///< wall time of this call; 0: none
  bool dry_run = false, overwrite = false;
  int ranks = 0; ///< dry run: number of ranks to plan for; 0: the ranks of this job
};

/// What training needs before Kokkos starts: the run directory is locked before anything in it is read.
struct TrainPlan {
  RunDirectory directory;
  RunStart start;
  RunConfig deck;
};

struct EvaluateArguments {
  std::string path;
  std::vector<std::string> overrides;
  std::string predictions; ///< .npz to write; empty: none
  bool overwrite = false;
  int stages = 0; ///< the network ends after this many stages; 0: after all
};

struct ExportArguments {
  std::string path, output; ///< the input, and the .onnx or .npz to write
  int stages = 0;           ///< the network ends after this many stages; 0: after all
  bool overwrite = false;   ///< replace any file, as in all other commands
};

struct InfoArguments {
  std::string path;                            ///< empty: about this build
  bool deck_reference = false, manual = false; ///< pages to print
  std::string completion;                      ///< shell to print the completion for
};

struct BenchArguments {
  std::vector<std::string> overrides;
  std::string json, only; ///< `only`: how the names of the measurements begin
  bool quick = false, overwrite = false;
};

struct PredictArguments {
  std::string deck, cluster; ///< `cluster` empty: the built-in description
  std::vector<std::string> overrides;
  std::string ranks = "1,2,4,8,16,32,64";
  std::string strategies;  ///< names between commas; empty: all
  std::int64_t stages = 0; ///< of strategies that cut the network; 0: one per rank
  std::int64_t parts = 0;  ///< ranks that share a layer; 0: those of a node if hybrid, otherwise 1
  std::string mode = "exact";
  std::string scaling; ///< "strong", "weak"; empty: strong in exact mode, weak in paper mode
  std::string json;    ///< file to write; "-": standard output
  bool overwrite = false;
};

struct DeckArguments {
  std::string deck, cluster; ///< `cluster` empty: the built-in description
  std::vector<std::string> overrides;
  std::int64_t ranks = 0;
  std::string output;       ///< deck to write
  bool allow_local = false; ///< also strategies that may change the accuracy
  std::string json;         ///< file to write; "-": standard output
  bool overwrite = false;
};

struct ScheduleArguments {
  std::string input;
  std::int64_t time_limit_seconds = 60;
  std::string engine = "built-in";
  std::string cache; ///< file of schedules, read and extended; empty: none
  std::string json;  ///< file to write; "-": standard output
  bool overwrite = false;
};

struct PlaceArguments {
  std::string input; ///< JSON, or a deck
  bool brute_force = false;
  std::vector<std::string> overrides; ///< of a deck, like all that follows
  std::string cluster;                ///< empty: the built-in description
  std::string output;                 ///< deck to write; empty: none
  std::int64_t ranks = 0;             ///< 0: those of this job
  std::string json;                   ///< file to write; "-": standard output
  bool overwrite = false;
};

struct SearchArguments {
  std::string spec;
  std::string state; ///< file to continue from; empty: none
  std::string json;  ///< file to write; "-": standard output
  bool overwrite = false;
};

struct CalibrateArguments {
  std::vector<std::string> decks; ///< networks whose training step is timed
  std::vector<std::string> runs;  ///< runs that refine a description, without measuring; empty: none
  std::string output;             ///< description of the cluster to write; empty: standard output
  double noise = 15.0;            ///< percent by which times of the same work may vary
  bool quick = false, overwrite = false;
};

/// Each returns when its work is done; mistakes of the user throw UserError. All ranks call those that take
/// `world`, one rank the others. `prepare...` runs without Kokkos and returns whether anything is left to do;
/// `runTrain` and `runCalibrate` return the exit code.
std::optional<TrainPlan> prepareTrain(const Communicator& world, const TrainArguments& arguments);
int runTrain(const Communicator& world, const TrainPlan& plan, const TrainArguments& arguments,
             const std::string& command_line);
bool prepareInfo(const Communicator& world, const InfoArguments& arguments);
void runInfo(const Communicator& world, const std::string& command_line);
void runPredict(const PredictArguments& arguments);
void runChooseDeck(const DeckArguments& arguments);
void runSchedule(const ScheduleArguments& arguments);
void runPlace(const PlaceArguments& arguments, std::int64_t job_ranks);
void runSearch(const Communicator& world, const SearchArguments& arguments);
void refineCluster(const CalibrateArguments& arguments);
int runCalibrate(const Communicator& world, const CalibrateArguments& arguments,
                 const std::string& command_line);
void runBench(const Communicator& world, const BenchArguments& arguments, const std::string& command_line);

} // namespace partita
