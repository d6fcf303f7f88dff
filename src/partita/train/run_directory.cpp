#include "partita/train/run_directory.hpp"

#include "partita/comm/agree.hpp"
#include "partita/core/log.hpp"
#include "partita/io/output_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace partita {

namespace fs = std::filesystem;

namespace {

constexpr const char* checkpoint_folder = "checkpoints";

/// Who holds a run directory, for the one who comes second.
std::string ownName() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::string name = "process " + std::to_string(getpid()) + " on " + host.data();
  for (const char* job : {"SLURM_JOB_ID", "PBS_JOBID", "FLUX_JOB_ID", "LSB_JOBID"})
    if (const char* id = std::getenv(job)) name += ", job " + std::string(id);
  return name;
}

/// The step in the name of a checkpoint; -1 where it has none.
long long stepOf(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return name.rfind("step-", 0) == 0 ? std::strtoll(name.c_str() + 5, nullptr, 10) : -1;
}

bool isLater(const std::string& path, const std::string& than) {
  return stepOf(path) > stepOf(than);
}

} // namespace

/// An advisory lock that the system takes away with the process, however that ends.
class RunDirectory::Lock {
 public:
  explicit Lock(const std::string& folder) : _path(folder + "/.lock") {
    do {
      take(folder);
    } while (!isStillThere());         // the one before has just removed the file it had locked
    std::ofstream(_path) << ownName(); // where there is no room for the name, the lock holds without it
  }
  ~Lock() {
    if (_file < 0) return;
    unlink(_path.c_str());
    close(_file);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  void take(const std::string& folder) {
    if (_file >= 0) close(_file);
    _file = open(_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (_file < 0)
      throw UserError("run directory '" + folder + "' cannot be written to: " + std::strerror(errno));
    if (flock(_file, LOCK_EX | LOCK_NB) == 0) return;
    const int reason = errno;
    std::string holder;
    std::getline(std::ifstream(_path), holder);
    if (reason == EWOULDBLOCK) {
      close(_file);
      _file = -1;
      throw UserError("run directory '" + folder + "' is in use by " +
                      (holder.empty() ? "another run" : holder));
    }
    Log::warning("run directory '" + folder + "' cannot be locked (" + std::strerror(reason) +
                 "): see to it that no other job uses it");
  }

  bool isStillThere() const {
    struct stat by_name {
    }, by_file{};
    return stat(_path.c_str(), &by_name) == 0 && fstat(_file, &by_file) == 0 &&
           by_name.st_ino == by_file.st_ino;
  }

  std::string _path;
  int _file = -1;
};

RunDirectory::RunDirectory(const Communicator& world, std::string path) : _path(std::move(path)) {
  if (_path.empty()) return;
  collectively(world, [&] {
    if (world.rank() != 0) return;
    std::error_code error;
    fs::create_directories(_path, error);
    if (error) throw UserError("run directory '" + _path + "': " + error.message());
    _lock = std::make_shared<Lock>(_path);
  });
}

void RunDirectory::prepare(const Communicator& world, const std::string& deck, const std::string& restart,
                           bool restart_asked) const {
  if (!exists()) return;
  collectively(world, [&] {
    if (world.rank() != 0) return;
    std::error_code ignored;
    const bool own = !restart.empty() &&
                     fs::equivalent(fs::absolute(restart).parent_path(), file(checkpoint_folder), ignored);
    if (!own && !restart_asked && !checkpointsIn(_path).empty())
      throw UserError("run directory '" + _path +
                      "' has checkpoints of an earlier run: go on with -r latest, or remove the folder");
    for (const char* name : {"summary.json", "parameters.h5", "output_now"}) fs::remove(file(name), ignored);
    removePartial();
    if (!own) fs::remove(file("history.csv"), ignored);
    for (const std::string& path : setAsideLater(_path, own ? restart : ""))
      Log::warning("a checkpoint that this run does not go on from is set aside: " + path);
    OutputFile kept(file("deck.toml"));
    kept.write(deck);
    kept.commit();
  });
}

void RunDirectory::removePartial() const {
  std::error_code ignored;
  for (const std::string& folder : {_path, file(checkpoint_folder)})
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (entry.path().extension() == ".partial") fs::remove(entry.path(), ignored);
}

std::string RunDirectory::scratch() const {
  if (exists()) return _path;
  const char* temporary = std::getenv("TMPDIR");
  return temporary != nullptr ? temporary : "/tmp";
}

std::string checkpointName(std::int64_t run_step) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "%s/step-%09lld.h5", checkpoint_folder,
                static_cast<long long>(run_step));
  return name.data();
}

std::vector<std::string> checkpointsIn(const std::string& run_directory) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run_directory + "/" + checkpoint_folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("step-", 0) == 0 && entry.path().extension() == ".h5")
      files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end(), isLater);
  return files;
}

std::vector<std::string> setAsideLater(const std::string& run_directory, const std::string& than) {
  std::vector<std::string> moved;
  std::error_code ignored, failure;
  for (const std::string& path : checkpointsIn(run_directory)) {
    if (!isLater(path, than)) break;
    std::string aside = path + ".superseded";
    for (int number = 2; fs::exists(aside, ignored); ++number)
      aside = path + ".superseded-" + std::to_string(number);
    fs::rename(path, aside, failure);
    if (failure) throw UserError("'" + path + "' cannot be set aside: " + failure.message());
    moved.push_back(aside);
  }
  return moved;
}

std::string parameterFileOf(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (fs::exists(path + "/parameters.h5", ignored)) return path + "/parameters.h5";
    const std::vector<std::string> checkpoints = checkpointsIn(path);
    if (!checkpoints.empty()) return checkpoints.front();
    throw UserError("'" + path + "' has no parameters.h5 and no checkpoint: is it the directory of a run?");
  }
  if (fs::exists(path, ignored)) return path;
  throw UserError("there is no file or run directory '" + path + "'");
}

} // namespace partita
