#include "partita/train/run_files.hpp"

#include "partita/config/deck.hpp"
#include "partita/config/files.hpp"
#include "partita/config/user_error.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/train/history.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace partita {

namespace fs = std::filesystem;

namespace {

constexpr const char* checkpoint_folder = "checkpoints";
constexpr const char* hdf5_mark = "\x89HDF\r\n\x1a\n";

/// A file of a run directory and how its text begins; HDF5 files have a mark of their own.
struct OwnFile {
  const char* name;
  const char* mark;
  bool result; ///< of a run, not only its settings
};
constexpr std::array<OwnFile, 5> own_files{
    {{"deck.toml", effective_deck_mark, false},
     {"history.csv", history_mark, true},
     {"summary.json", "{\n  \"strategy\": ", true},
     {"trace.json", R"({"displayTimeUnit": "ms", "traceEvents": [)", true},
     {"parameters.h5", hdf5_mark, true}}};

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

/// Does the file begin so? An empty one, which a full disk may leave, does.
bool begins(const std::string& path, const std::string& mark) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  std::string start(mark.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  return file.gcount() == 0 || start == mark;
}

/// HDF5 of another program is foreign; what is no HDF5 at all may be a damaged file of ours.
bool isForeignHdf5(const std::string& path) {
  try {
    const RunFile opened(path);
  } catch (const DamagedFile&) {
    return false;
  } catch (const UserError&) {
    return true;
  }
  return false;
}

bool isOurs(const std::string& folder, const OwnFile& file) {
  const std::string path = folder + "/" + file.name;
  return begins(path, file.mark) && (file.mark != hdf5_mark || !isForeignHdf5(path));
}

/// More than one line: a history without rows is nothing to lose.
bool saysSomething(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  return static_cast<bool>(std::getline(file, line)) && file.peek() != std::ifstream::traits_type::eof();
}

/// The step in the name of a checkpoint, step-NNNNNNNNN.h5 with nine digits or more; -1: it is none.
long long stepOf(const std::string& path) {
  constexpr std::size_t before = 5, digits = 9, after = 3; // "step-", ".h5"
  const std::string name = fs::path(path).filename().string();
  if (name.size() < before + digits + after || name.rfind("step-", 0) != 0 ||
      name.compare(name.size() - after, after, ".h5") != 0)
    return -1;
  const std::string number = name.substr(before, name.size() - before - after);
  if (number.find_first_not_of("0123456789") != std::string::npos) return -1;
  return std::strtoll(number.c_str(), nullptr, 10);
}

bool isLater(const std::string& path, const std::string& than) {
  return stepOf(path) > stepOf(than);
}

/// What a killed run may have left in a folder: NAME.partial of our names, with content of ours or none yet.
std::vector<std::string> unfinishedFiles(const std::string& run_directory) {
  std::vector<std::string> found;
  const auto take = [&](const std::string& path, const std::string& mark) {
    if (exists(path) && (begins(path, mark) || begins(path, std::string(mark.size(), '\0'))))
      found.push_back(path);
  };
  for (const OwnFile& file : own_files) take(run_directory + "/" + file.name + ".partial", file.mark);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run_directory + "/" + checkpoint_folder, ignored))
    if (entry.path().extension() == ".partial" && stepOf(entry.path().stem().string()) >= 0)
      take(entry.path().string(), hdf5_mark);
  return found;
}

[[noreturn]] void failForeign(const std::string& path) {
  throw UserError(path + ": is no file of Partita and would be overwritten; take another run directory");
}

} // namespace

std::string checkpointName(std::int64_t run_step) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "%s/step-%09lld.h5", checkpoint_folder,
                static_cast<long long>(run_step));
  return name.data();
}

std::vector<std::string> checkpointsIn(const std::string& run_directory) {
  std::vector<std::string> files;
  const std::string folder = run_directory + "/" + checkpoint_folder;
  std::error_code error;
  const fs::directory_iterator entries(folder, error);
  if (error && error.value() != ENOENT && error.value() != ENOTDIR)
    failFile(folder, "cannot be read", error.value());
  for (const auto& entry : entries)
    if (stepOf(entry.path().string()) >= 0) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end(), isLater);
  return files;
}

std::vector<std::string> resultsIn(const std::string& run_directory) {
  std::vector<std::string> names;
  for (const OwnFile& file : own_files)
    if (file.result && isOurs(run_directory, file) && saysSomething(run_directory + "/" + file.name))
      names.emplace_back(file.name);
  const std::vector<std::string> checkpoints = checkpointsIn(run_directory);
  if (!checkpoints.empty())
    names.push_back(checkpoint_folder + ("/" + fs::path(checkpoints.front()).filename().string()));
  return names;
}

bool holdsFinishedRun(const std::string& run_directory) {
  const std::vector<std::string> results = resultsIn(run_directory);
  return std::any_of(results.begin(), results.end(), [](const std::string& name) {
    return name == "parameters.h5" || name == "summary.json";
  });
}

void refuseForeignFiles(const std::string& run_directory) {
  const std::vector<std::string> unfinished = unfinishedFiles(run_directory);
  const auto check = [&](const std::string& path, bool ours) {
    if (exists(path) && !ours) failForeign(path);
    const std::string partial = path + ".partial";
    if (exists(partial) && std::find(unfinished.begin(), unfinished.end(), partial) == unfinished.end())
      failForeign(partial);
  };
  for (const OwnFile& file : own_files) check(run_directory + "/" + file.name, isOurs(run_directory, file));
  for (const std::string& path : checkpointsIn(run_directory)) check(path, !isForeignHdf5(path));
  std::error_code ignored;
  const std::string folder = run_directory + "/" + checkpoint_folder;
  if (exists(folder) && !fs::is_directory(folder, ignored)) failForeign(folder);
}

void removeResults(const std::string& run_directory, bool keeps_history) {
  std::error_code ignored;
  for (const OwnFile& file : own_files) {
    const bool stays = !file.result || (keeps_history && file.mark == history_mark);
    if (!stays && isOurs(run_directory, file)) fs::remove(run_directory + "/" + file.name, ignored);
  }
}

void removeCheckpoints(const std::string& run_directory) {
  std::error_code ignored;
  for (const std::string& path : checkpointsIn(run_directory))
    if (!isForeignHdf5(path)) fs::remove(path, ignored);
}

void removeUnfinishedFiles(const std::string& run_directory) {
  std::error_code ignored;
  for (const std::string& path : unfinishedFiles(run_directory)) fs::remove(path, ignored);
}

std::vector<std::string> setAsideLater(const std::string& run_directory, const std::string& than) {
  std::vector<std::string> moved;
  std::error_code failure;
  for (const std::string& path : checkpointsIn(run_directory)) {
    if (!isLater(path, than)) break;
    std::string aside = path + ".superseded";
    for (int number = 2; exists(aside); ++number) aside = path + ".superseded-" + std::to_string(number);
    fs::rename(path, aside, failure);
    if (failure) throw UserError("'" + path + "' cannot be set aside: " + failure.message());
    moved.push_back(aside);
  }
  return moved;
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
  throw UserError("'" + path + "' has no parameters.h5 and no checkpoint: is it the directory of a run?");
}

std::vector<std::string> filesOfRun(const std::string& path) {
  std::error_code ignored;
  fs::path folder = path;
  if (!fs::is_directory(path, ignored)) folder = fs::absolute(path, ignored).parent_path();
  if (folder.filename() == checkpoint_folder) folder = folder.parent_path();
  std::vector<std::string> files = checkpointsIn(folder.string());
  for (const OwnFile& file : own_files) files.push_back((folder / file.name).string());
  files.push_back(path);
  return files;
}

} // namespace partita
