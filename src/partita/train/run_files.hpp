#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace partita {

/// What a run leaves in its directory, by name and content (docs/run-directory.md).

constexpr const char* lock_name = ".partita.lock";

/// `checkpoints/step-000000120.h5` of a run directory.
std::string checkpointName(std::int64_t run_step);

/// The checkpoints of a run directory, the newest first; none where there is no such folder. Throws UserError
/// where there is one that cannot be listed: it may hold the state of a run.
std::vector<std::string> checkpointsIn(const std::string& run_directory);

/// Results of a run that stand in the directory: names of files with our marks, such as "summary.json".
std::vector<std::string> resultsIn(const std::string& run_directory);
/// Is one of them the end of a run: its parameters or its summary?
bool holdsFinishedRun(const std::string& run_directory);

/// Throws UserError where a file that is none of ours has the name of one that a run would write.
void refuseForeignFiles(const std::string& run_directory);

/// Removes the results of an earlier run, checkpoints as well; those that are damaged are set aside, and the
/// file `kept` stays.
void discardResults(const std::string& run_directory, const std::string& kept);
/// Renames a file to NAME.superseded, or with a number if there is one already; its new name. Throws
/// UserError where it keeps its name.
std::string setAside(const std::string& path);
/// Sets results of an earlier run aside: its history or not, all others but for checkpoints or not. Their new
/// names.
std::vector<std::string> setResultsAside(const std::string& run_directory, bool history, bool others);
/// Removes what a killed run of ours was writing.
void removeUnfinishedFiles(const std::string& run_directory);

/// Renames checkpoints of later steps than that of the file `than` (empty: all), which a later -r latest must
/// not take; their new names. Throws UserError where one keeps its name.
std::vector<std::string> setAsideLater(const std::string& run_directory, const std::string& than);

/// Writes `deck.toml`; one that somebody has changed is set aside.
void writeEffectiveDeck(const std::string& run_directory, const std::string& deck);

/// The parameter file of a run directory, or else its newest checkpoint, or the file itself. Throws UserError
/// where there is none.
std::string parameterFileOf(const std::string& path);
/// All files of the run that `path` names, its directory or one of its files: what a command that reads it
/// must not overwrite.
std::vector<std::string> filesOfRun(const std::string& path);

} // namespace partita
