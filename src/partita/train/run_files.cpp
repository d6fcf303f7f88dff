#include "partita/train/run_files.hpp"

#include "partita/config/files.hpp"
#include "partita/config/user_error.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/strategy/hogbatch/decisions.hpp"
#include "partita/train/history.hpp"
#include "partita/train/worker_reports.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <string_view>

namespace partita {

namespace fs = std::filesystem;

namespace {

constexpr const char* checkpoint_folder = "checkpoints";
constexpr std::string_view hdf5_mark = "\x89HDF\r\n\x1a\n";

/// What a file tells of a run. Histories and logs grow: a run that continues appends to them.
enum class Content { settings, history, decisions, result };

/// A file of a run directory and how its text begins; HDF5 files have their own mark.
struct OwnFile {
  const char* name;
  std::string_view mark;
  Content content;

  bool result() const { return content != Content::settings; }
  bool grows() const { return content == Content::history || content == Content::decisions; }
};
constexpr std::array<OwnFile, 7> own_files{
    {{"deck.toml", effective_deck_mark, Content::settings},
     {"history.csv", history_mark, Content::history},
     {"workers.csv", workers_mark, Content::history},
     {"decisions.csv", decisions_mark, Content::decisions},
     {"summary.json", "{\n  \"strategy\": ", Content::result},
     {"trace.json", R"({"displayTimeUnit": "ms", "traceEvents": [)", Content::result},
     {"parameters.h5", hdf5_mark, Content::result}}};

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

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

/// Returns whether the file begins with the mark. This includes an empty file, which a full disk may leave.
bool begins(const std::string& path, std::string_view mark) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  std::string start(mark.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), start.size());
  return file.gcount() == 0 || start == mark;
}

/// Returns whether the file begins like HDF5, apart from some damage: a crash may leave zeros in place of the
/// first bytes.
bool looksLikeHdf5(const std::string& path) {
  constexpr std::ptrdiff_t enough = 4; // of the eight bytes
  std::string start(hdf5_mark.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), start.size());
  const auto equal = std::inner_product(hdf5_mark.begin(), hdf5_mark.end(), start.begin(), std::ptrdiff_t{0},
                                        std::plus<>{}, std::equal_to<>{});
  return equal >= enough || start == std::string(hdf5_mark.size(), '\0');
}

/// Where a file with the name of one of our HDF5 files comes from: it may be removed only if it is proved to
/// be ours. Throws if it cannot be read, which proves nothing.
enum class Origin { ours, damaged, foreign };

Origin originOf(const std::string& path) {
  try {
    const RunFile opened(path);
  } catch (const DamagedFile&) {
    return looksLikeHdf5(path) ? Origin::damaged : Origin::foreign;
  } catch (const ForeignFile&) {
    return Origin::foreign;
  }
  return Origin::ours;
}

bool isOurs(const std::string& folder, const OwnFile& file) {
  const std::string path = folder + "/" + file.name;
  if (file.mark == hdf5_mark) return regularFileExists(path) && originOf(path) != Origin::foreign;
  return begins(path, file.mark);
}

std::string freeNameAside(const std::string& path) {
  std::string aside = path + ".superseded";
  for (int number = 2; exists(aside); ++number) aside = path + ".superseded-" + std::to_string(number);
  return aside;
}

/// Removes a result that is proved to be ours; sets any other aside.
void discard(const std::string& path, const std::string& kept) {
  std::error_code ignored;
  if (fs::equivalent(path, kept, ignored)) return; // the run begins with it
  const bool hdf5 = fs::path(path).extension() == ".h5";
  if (hdf5 && originOf(path) != Origin::ours) {
    setAside(path);
  } else {
    fs::remove(path, ignored);
  }
}

/// Returns whether there is more than one line: a history without rows is no loss.
bool saysSomething(const std::string& path) {
  std::string start(4096, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), start.size());
  const std::size_t got = file.gcount();
  return got == start.size() || start.find('\n') + 1 < got;
}

/// The step in the name of a checkpoint, step-NNNNNNNNN.h5 with nine digits or more; -1 if it has another
/// name.
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

/// Files that a killed run may have left in a folder: NAME.partial for each of our names, empty or with our
/// content.
std::vector<std::string> unfinishedFiles(const std::string& run_directory) {
  std::vector<std::string> found;
  const auto take = [&](const std::string& path, std::string_view mark) {
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
  throw UserError(path + ": is not a Partita file and would be overwritten; choose another run directory");
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

std::vector<std::string> growingFilesIn(const std::string& run_directory) {
  std::vector<std::string> files;
  for (const OwnFile& file : own_files) {
    const std::string path = run_directory + "/" + file.name;
    if (file.grows() && exists(path)) files.push_back(path);
  }
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
  for (const std::string& path : checkpointsIn(run_directory))
    check(path, regularFileExists(path) && originOf(path) != Origin::foreign);
  std::error_code ignored;
  const std::string folder = run_directory + "/" + checkpoint_folder;
  if (exists(folder) && !fs::is_directory(folder, ignored)) failForeign(folder);
}

void discardResults(const std::string& run_directory, const std::string& kept) {
  for (const OwnFile& file : own_files)
    if (file.result() && isOurs(run_directory, file)) discard(run_directory + "/" + file.name, kept);
  for (const std::string& path : checkpointsIn(run_directory)) discard(path, kept);
}

std::string setAside(const std::string& path) {
  const std::string aside = freeNameAside(path);
  std::error_code failure;
  fs::rename(path, aside, failure);
  if (failure) throw UserError("'" + path + "' cannot be renamed: " + failure.message());
  return aside;
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

void removeUnfinishedFiles(const std::string& run_directory) {
  std::error_code ignored;
  for (const std::string& path : unfinishedFiles(run_directory)) fs::remove(path, ignored);
}

std::vector<std::string> setAsideLater(const std::string& run_directory, const std::string& than) {
  std::vector<std::string> moved;
  for (const std::string& path : checkpointsIn(run_directory)) {
    if (!isLater(path, than)) break;
    moved.push_back(setAside(path));
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
  throw UserError("'" + path + "' has no parameters.h5 and no checkpoint: is it a run directory?");
}

std::vector<std::string> filesOfRun(const std::string& path) {
  std::error_code ignored;
  fs::path folder = path;
  if (!fs::is_directory(path, ignored)) folder = fs::absolute(path, ignored).parent_path();
  if (folder.filename() == checkpoint_folder) folder = folder.parent_path();
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder / checkpoint_folder, ignored))
    files.push_back(entry.path().string());
  for (const OwnFile& file : own_files) files.push_back((folder / file.name).string());
  files.push_back((folder / lock_name).string());
  files.push_back(path);
  return files;
}

} // namespace partita
