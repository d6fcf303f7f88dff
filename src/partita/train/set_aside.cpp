#include "partita/train/set_aside.hpp"

#include "partita/config/files.hpp"
#include "partita/config/user_error.hpp"
#include "partita/io/output_file.hpp"
#include "partita/train/own_files.hpp"
#include "partita/train/run_files.hpp"

#include <algorithm>
#include <filesystem>

namespace partita {

namespace fs = std::filesystem;

namespace {

bool keeps(const TakenOver& taken, Content content) {
  switch (content) {
  case Content::history:
    return taken.history;
  case Content::decisions:
    return taken.decisions;
  case Content::result:
    return taken.results;
  case Content::settings:
    break;
  }
  return true;
}

std::string freeNameAside(const std::string& path) {
  std::string aside = path + ".superseded";
  for (int number = 2; exists(aside); ++number) aside = path + ".superseded-" + std::to_string(number);
  return aside;
}

/// Removes a result that is proved to be ours; sets any other aside.
void discard(const std::string& path, const std::string& kept) {
  std::error_code ignored, failure;
  if (fs::equivalent(path, kept, ignored)) return; // the run begins with it
  const bool hdf5 = fs::path(path).extension() == ".h5";
  if (hdf5 && originOf(path) != Origin::ours) {
    setAside(path);
  } else {
    fs::remove(path, failure);
  }
  if (failure) failFile(path, "cannot be removed", failure.value());
}

/// Renames a link; if `copied`, a copy of the file to which it leads takes its place.
std::string setLinkAside(const std::string& path, bool copied) {
  const std::string partial = path + ".partial";
  std::error_code failure, ignored;
  if (copied) fs::copy_file(path, partial, failure);
  if (failure) {
    fs::remove(partial, ignored);
    failFile(partial, "cannot be written", failure.value());
  }
  if (copied) fs::permissions(partial, fs::perms::owner_write, fs::perm_options::add, ignored);
  std::string aside = setAside(path);
  if (copied) syncFile(partial);
  if (copied) publishFile(partial, path);
  return aside;
}

} // namespace

void discardResults(const std::string& run_directory, const std::string& kept) {
  // Checkpoints first: if they may not be removed, the other results stay as well.
  for (const std::string& path : checkpointsIn(run_directory)) discard(path, kept);
  for (const OwnFile& file : own_files)
    if (file.result() && isOurs(run_directory, file)) discard(run_directory + "/" + file.name, kept);
}

std::string setAside(const std::string& path) {
  const std::string aside = freeNameAside(path);
  std::error_code failure;
  fs::rename(path, aside, failure);
  if (failure) failFile(path, "cannot be renamed", failure.value());
  return aside;
}

std::vector<std::string> growingFilesIn(const std::string& run_directory, const TakenOver& taken) {
  std::vector<std::string> files;
  for (const OwnFile& file : own_files) {
    const std::string path = run_directory + "/" + file.name;
    if (file.grows() && keeps(taken, file.content) && exists(path)) files.push_back(path);
  }
  return files;
}

std::vector<std::string> setResultsAside(const std::string& run_directory, const TakenOver& taken) {
  std::vector<std::string> moved;
  for (const OwnFile& file : own_files) {
    const std::string path = run_directory + "/" + file.name;
    if (!keeps(taken, file.content) && isOurs(run_directory, file) && saysSomething(path))
      moved.push_back(setAside(path));
  }
  return moved;
}

std::vector<std::string> setForeignAside(const std::string& run_directory,
                                         const std::vector<std::string>& names) {
  std::vector<std::string> moved;
  for (const OwnFile& file : own_files) {
    const std::string path = run_directory + "/" + file.name;
    const bool wanted = std::find(names.begin(), names.end(), file.name) != names.end();
    std::error_code ignored;
    const bool leads_elsewhere = file.writtenInPlace() && fs::is_symlink(path, ignored);
    if (wanted && exists(path) && (leads_elsewhere || !isOurs(run_directory, file)))
      moved.push_back(setAside(path));
  }
  return moved;
}

std::vector<std::string> setLinksAside(const std::string& run_directory, const TakenOver& taken) {
  std::vector<std::string> moved;
  std::error_code ignored;
  for (const OwnFile& file : own_files) {
    const std::string path = run_directory + "/" + file.name;
    if (file.writtenInPlace() && fs::is_symlink(path, ignored))
      moved.push_back(setLinkAside(path, file.grows() && keeps(taken, file.content)));
  }
  return moved;
}

std::vector<std::string> setAsideLater(const std::string& run_directory, const std::string& than) {
  std::vector<std::string> moved;
  for (const std::string& path : checkpointsIn(run_directory)) {
    if (checkpointStep(path) <= checkpointStep(than)) break;
    moved.push_back(setAside(path));
  }
  return moved;
}

} // namespace partita
