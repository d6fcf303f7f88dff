#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace partita {

/// What a run leaves in its directory, by name and content (docs/run-directory.md).

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

/// Removes the results of an earlier run but for checkpoints and, if asked for, the history.
void removeResults(const std::string& run_directory, bool keeps_history);
void removeCheckpoints(const std::string& run_directory);
/// Removes what a killed run of ours was writing.
void removeUnfinishedFiles(const std::string& run_directory);

/// Renames checkpoints of later steps than that of the file `than` (empty: all), which a later -r latest must
/// not take; their new names. Throws UserError where one keeps its name.
std::vector<std::string> setAsideLater(const std::string& run_directory, const std::string& than);

/// The parameter file of a run directory, or else its newest checkpoint, or the file itself. Throws UserError
/// where there is none.
std::string parameterFileOf(const std::string& path);
/// All files of the run that `path` names, its directory or one of its files: what a command that reads it
/// must not overwrite.
std::vector<std::string> filesOfRun(const std::string& path);

} // namespace partita
