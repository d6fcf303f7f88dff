#include "partita/train/run_files.hpp"

#include "partita/config/deck.hpp"
#include "partita/config/files.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/io/output_file.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/train/own_files.hpp"
#include "partita/train/run_leftovers.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace partita {

namespace fs = std::filesystem;

namespace {

bool isLater(const std::string& path, const std::string& than) {
  return checkpointStep(path) > checkpointStep(than);
}

[[noreturn]] void failForeign(const std::string& path) {
  throw UserError(path + ": is not a Partita file and would be overwritten; choose another run directory");
}

/// The path, what it leads to if it is a link, what that leads to, and so on; at the end the place itself.
std::vector<fs::path> linksFrom(const fs::path& path) {
  constexpr std::size_t most_links = 40; // the limit of Linux
  std::error_code ignored;
  std::vector<fs::path> names{path};
  while (names.size() < most_links && fs::is_symlink(names.back(), ignored))
    names.push_back(names.back().parent_path() / fs::read_symlink(names.back(), ignored));
  names.push_back(fs::canonical(path, ignored)); // links among the folders
  return names;
}

bool holdsRun(const std::string& folder) {
  return std::any_of(own_files.begin(), own_files.end(),
                     [&](const OwnFile& file) { return isOurs(folder, file); });
}

/// Throws UserError if `checkpoints` is a link to those of another run: this run would rename and remove
/// them, although the other one may be active.
void refuseOtherCheckpoints(const std::string& run_directory) {
  const std::string folder = run_directory + "/" + checkpoint_folder;
  std::error_code ignored;
  for (const fs::path& name : linksFrom(folder)) {
    const std::string other = name.parent_path().string();
    if (name.filename() != checkpoint_folder || fs::equivalent(other, run_directory, ignored)) continue;
    if (holdsRun(other))
      throw UserError(folder + ": leads to the checkpoints of another run, in '" + other +
                      "'; remove this link; to start from a checkpoint there, name it with -r");
  }
}

} // namespace

std::string checkpointName(std::int64_t run_step) {
  return formatted("%s/step-%09lld.h5", checkpoint_folder, static_cast<long long>(run_step));
}

std::int64_t checkpointStep(const std::string& path) {
  constexpr std::size_t before = 5, digits = 9, after = 3; // "step-", ".h5"
  const std::string name = fs::path(path).filename().string();
  if (name.size() < before + digits + after || name.rfind("step-", 0) != 0 ||
      name.compare(name.size() - after, after, ".h5") != 0)
    return -1;
  const std::string number = name.substr(before, name.size() - before - after);
  if (number.find_first_not_of("0123456789") != std::string::npos) return -1;
  return std::strtoll(number.c_str(), nullptr, 10);
}

std::vector<std::string> checkpointsIn(const std::string& run_directory) {
  std::vector<std::string> files;
  const std::string folder = run_directory + "/" + checkpoint_folder;
  std::error_code error;
  const std::vector<fs::path> entries = entriesOf(folder, error);
  if (error && error.value() != ENOENT && error.value() != ENOTDIR)
    failFile(folder, "cannot be read", error.value());
  for (const fs::path& entry : entries)
    if (checkpointStep(entry.string()) >= 0) files.push_back(entry.string());
  std::sort(files.begin(), files.end(), isLater);
  return files;
}

std::vector<std::string> resultsIn(const std::string& run_directory) {
  std::vector<std::string> names;
  for (const OwnFile& file : own_files)
    if (file.result() && isOurs(run_directory, file) && saysSomething(run_directory + "/" + file.name))
      names.emplace_back(file.name);
  const std::vector<std::string> checkpoints = checkpointsIn(run_directory);
  if (!checkpoints.empty())
    names.push_back(checkpoint_folder + ("/" + fs::path(checkpoints.front()).filename().string()));
  return names;
}

bool holdsFinishedRun(const std::string& run_directory) {
  const std::vector<std::string> results = resultsIn(run_directory);
  const auto has = [&](const char* name) {
    return std::find(results.begin(), results.end(), name) != results.end();
  };
  return has("parameters.h5") && has("summary.json");
}

void refuseForeignFiles(const std::string& run_directory) {
  refuseOtherCheckpoints(run_directory);
  const auto check = [](const std::string& path, bool ours) {
    if (exists(path) && !ours) failForeign(path);
  };
  for (const OwnFile& file : own_files) check(run_directory + "/" + file.name, isOurs(run_directory, file));
  for (const std::string& path : checkpointsIn(run_directory))
    check(path, regularFileExists(path) && originOf(path) != Origin::foreign);
  for (const std::string& path : foreignPartialFiles(run_directory)) failForeign(path);
  std::error_code ignored;
  const std::string folder = run_directory + "/" + checkpoint_folder;
  if (exists(folder) && !fs::is_directory(folder, ignored)) failForeign(folder);
}

std::vector<StoredDeck> storedDecks(const std::string& run_directory, const std::string& last) {
  std::vector<std::string> files = checkpointsIn(run_directory);
  const std::string parameters = run_directory + "/parameters.h5";
  if (regularFileExists(parameters)) files.insert(files.begin(), parameters);
  std::vector<StoredDeck> decks;
  for (const std::string& file : files) {
    if (!decks.empty() && decks.back().text == last) break;
    try {
      decks.push_back({file, RunFile(file).facts().deck});
    } catch (const DamagedFile&) {
      // its deck may be damaged, too
    }
  }
  return decks;
}

std::string parameterFileOf(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    if (regularFileExists(path)) return path;
    throw UserError("there is no file or run directory '" + path + "'");
  }
  if (exists(path + "/parameters.h5")) return path + "/parameters.h5";
  const std::vector<std::string> checkpoints = checkpointsIn(path);
  if (!checkpoints.empty()) return checkpoints.front();
  throw UserError("'" + path + "' has no parameters.h5 and no checkpoint: is it a run directory?");
}

std::string describeSource(const std::string& path, const std::optional<RunProgress>& progress) {
  const std::string what = "reading " + path;
  return progress ? what + ": checkpoint at step " + std::to_string(progress->run_step) : what;
}

std::string describePhase(const Position& position, const std::string& deck) {
  if (position.phase == RunPhase::recovery) return "recovery";
  RunLength length;
  try {
    const StrategySection strategy = parseDeck(deck, "").strategy;
    planOf(strategy).setPhases(strategy, length);
  } catch (const UserError&) {
    return "training";
  }
  return length.turns > 1 ? "training of stage " + std::to_string(position.stage + 1) : "training";
}

namespace {

/// Is it a result of a run? A file that cannot be read may be one.
bool mayBeResult(const std::string& folder, const OwnFile& file) {
  const std::string path = folder + "/" + file.name;
  std::error_code ignored;
  if (!file.result() || !fs::is_regular_file(path, ignored)) return false;
  try {
    return isOurs(folder, file) && saysSomething(path);
  } catch (const UserError&) {
    return true;
  }
}

/// Are there results or checkpoints of a run, or is one under way?
bool isRunDirectory(const std::string& folder) {
  const auto may_be_result = [&](const OwnFile& file) { return mayBeResult(folder, file); };
  if (exists(folder + "/" + lock_name)) return true;
  if (std::any_of(own_files.begin(), own_files.end(), may_be_result)) return true;
  try {
    return !checkpointsIn(folder).empty();
  } catch (const UserError&) {
    return true;
  }
}

/// Also with ".partial" or ".superseded" appended.
bool isNameOfCheckpoint(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::size_t end = name.find(".h5");
  return end != std::string::npos && checkpointStep(name.substr(0, end + 3)) >= 0;
}

/// Adds the files of a run in a folder; if the folder is a run directory, also those that are not there yet.
void addFilesOfRun(const fs::path& folder, std::vector<std::string>& files) {
  std::error_code ignored;
  const bool all = isRunDirectory(folder.string());
  const auto add = [&](const std::string& name) {
    if (all || exists(name)) files.push_back(name);
  };
  const auto is_aside = [](const std::string& name) {
    return std::any_of(own_files.begin(), own_files.end(), [&](const OwnFile& file) {
      return name.rfind(file.name + std::string(".superseded"), 0) == 0;
    });
  };
  for (const fs::path& entry : entriesOf((folder / checkpoint_folder).string(), ignored))
    files.push_back(entry.string());
  for (const fs::path& entry : entriesOf(folder.string(), ignored))
    if (is_aside(entry.filename().string())) files.push_back(entry.string());
  for (const OwnFile& file : own_files)
    for (const char* suffix : {"", ".partial"}) add((folder / file.name).string() + suffix);
  for (const char* name : {lock_name, output_request, checkpoint_folder}) add((folder / name).string());
}

} // namespace

std::vector<std::string> filesOfRun(const std::string& path) {
  std::error_code ignored;
  std::vector<std::string> files;
  for (const fs::path& name : linksFrom(path)) { // a link to a file of the run is seldom in its directory
    if (name.empty()) continue;
    fs::path folder = name;
    if (!fs::is_directory(name, ignored)) folder = fs::absolute(name, ignored).parent_path();
    if (folder.filename() == checkpoint_folder) folder = folder.parent_path();
    addFilesOfRun(folder, files);
  }
  files.push_back(path);
  return files;
}

std::vector<std::string> filesOfRunWith(const std::string& deck) {
  std::error_code ignored;
  std::vector<std::string> files;
  for (const fs::path& name : linksFrom(deck)) {
    if (name.empty()) continue;
    const fs::path folder = fs::absolute(name, ignored).parent_path();
    if (isRunDirectory(folder.string())) addFilesOfRun(folder, files);
    const bool checkpoint = folder.filename() == checkpoint_folder && isNameOfCheckpoint(name);
    if (checkpoint && isRunDirectory(folder.parent_path().string()))
      files.push_back(name.string()); // which may be written yet
  }
  return files;
}

void refuseOutput(const std::string& output, const std::vector<std::string>& inputs) {
  refuseInput(output, inputs);
  for (const std::string& file : filesOfRunWith(output))
    if (isSameFile(output, file))
      throw UserError(output + ": has the name of a file of the run in this directory; choose another name");
}

} // namespace partita
