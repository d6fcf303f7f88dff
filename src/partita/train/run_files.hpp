#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace partita {

struct Position;
struct RunProgress;

/// The files that a run leaves in its directory, by name and content (docs/run-directory.md).

constexpr const char* lock_name = ".partita.lock";
constexpr const char* output_request = "output_now"; ///< whoever makes it requests a checkpoint

/// `checkpoints/step-000000120.h5` of a run directory.
std::string checkpointName(std::int64_t run_step);

/// The step in the name of a checkpoint, step-NNNNNNNNN.h5 with nine digits or more; -1 if it has another
/// name.
std::int64_t checkpointStep(const std::string& path);

/// The checkpoints of a run directory, newest first; empty if there is no such folder. Throws UserError if
/// the folder exists but cannot be listed: it may hold the state of a run.
std::vector<std::string> checkpointsIn(const std::string& run_directory);

/// Results of a run in the directory: names of files with our marks, such as "summary.json".
std::vector<std::string> resultsIn(const std::string& run_directory);
/// Returns whether they are those of a run that ended: parameters and summary.
bool holdsFinishedRun(const std::string& run_directory);

/// Throws UserError if a foreign file, or one that cannot be read, has the name of a file that a run would
/// write, or if `checkpoints` leads to those of another run.
void refuseForeignFiles(const std::string& run_directory);

/// A file of a run and the effective deck in it.
struct StoredDeck {
  std::string file, text;
};
/// Those of the parameters and checkpoints of a run directory that are not damaged, parameters first, then
/// the newest checkpoint, up to the first one whose text is `last`: opening a file takes time.
std::vector<StoredDeck> storedDecks(const std::string& run_directory, const std::string& last = "");

/// Returns the parameter file of a run directory, otherwise its newest checkpoint; or `path` itself if it is
/// a file. Throws UserError if there is none.
std::string parameterFileOf(const std::string& path);
/// "reading PATH", and of a checkpoint the step of the run.
std::string describeSource(const std::string& path, const std::optional<RunProgress>& progress);
/// What a run of this deck trains at the position. Stages are named only if they train in turns, which is not
/// known if this version refuses the deck.
std::string describePhase(const Position& position, const std::string& deck);
/// All files of the run that `path` names (its directory or one of its files), which a command that reads the
/// run must not overwrite.
std::vector<std::string> filesOfRun(const std::string& path);
/// The same for a deck, if it lies in a run directory or is a link to one there; otherwise nothing. A run
/// directory has results or checkpoints, or is in use: `plan deck` also writes decks.
std::vector<std::string> filesOfRunWith(const std::string& deck);
/// Throws UserError if a command must not write `output`: it is one of `inputs` (see refuseInput), or has the
/// name of a file of a run, in whose directory it lies.
void refuseOutput(const std::string& output, const std::vector<std::string>& inputs);

} // namespace partita
