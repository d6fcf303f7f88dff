#pragma once

#include <string>
#include <vector>

namespace partita {

/// How a run makes room in its directory: what may be of use to somebody is renamed, not removed.

/// Removes the results of an earlier run, including checkpoints; damaged ones are set aside, and the file
/// `kept` stays.
void discardResults(const std::string& run_directory, const std::string& kept);
/// Renames a file to NAME.superseded, with a number if that exists already; returns the new name. Throws
/// UserError if the renaming fails.
std::string setAside(const std::string& path);
/// What a run takes over from an earlier one in its directory.
struct TakenOver {
  bool history = false;   ///< rows up to the checkpoint
  bool decisions = false; ///< those of the log
  bool results = false;   ///< the run has no steps left, and makes the same results again
};
/// The files there to which a run appends while it goes on, such as its history, if they are taken over.
std::vector<std::string> growingFilesIn(const std::string& run_directory,
                                        const TakenOver& taken = {true, true, true});
/// Sets results of an earlier run aside that are not taken over, except checkpoints. Returns the new names.
std::vector<std::string> setResultsAside(const std::string& run_directory, const TakenOver& taken);
/// Sets files aside that somebody has put in the place of these results since the run began. Returns the new
/// names.
std::vector<std::string> setForeignAside(const std::string& run_directory,
                                         const std::vector<std::string>& names);
/// Renames links with names of files that a run writes in place: writing would change the files to which they
/// lead. A copy takes the place of a table whose rows are taken over. Returns the new names.
std::vector<std::string> setLinksAside(const std::string& run_directory, const TakenOver& taken);

/// Renames checkpoints of later steps than that of the file `than` (empty: all), which a later -r latest must
/// not take; returns their new names. Throws UserError if a renaming fails.
std::vector<std::string> setAsideLater(const std::string& run_directory, const std::string& than);

} // namespace partita
