#include "partita/train/run_directory.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/deck.hpp"
#include "partita/config/files.hpp"
#include "partita/config/user_error.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/core/log.hpp"
#include "partita/io/earlier_output.hpp"
#include "partita/io/output_file.hpp"
#include "partita/train/own_files.hpp"
#include "partita/train/run_leftovers.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace partita {

namespace fs = std::filesystem;

namespace {

constexpr const char* lock_mark = "process ";
constexpr std::uint64_t most_deck_bytes = 64 << 20; ///< longer than any deck that is written

/// The text by which a second run learns who holds the run directory. It is unique to this run.
std::string ownName() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::string name = lock_mark + std::to_string(getpid()) + " on " + host.data();
  for (const char* job : {"SLURM_JOB_ID", "PBS_JOBID", "FLUX_JOB_ID", "LSB_JOBID"})
    if (const char* id = std::getenv(job)) name += ", job " + std::string(id);
  return name + "\n" + std::to_string(std::chrono::system_clock::now().time_since_epoch().count());
}

std::string firstLine(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

std::string freeName(const std::string& path) {
  std::string base = path;
  while (base.size() > 1 && base.back() == '/') base.pop_back();
  std::error_code ignored;
  int number = 2;
  while (fs::exists(fs::symlink_status(base + "-" + std::to_string(number), ignored))) ++number;
  return base + "-" + std::to_string(number);
}

/// Returns whether the text is an effective deck as the program wrote it.
bool isUnchanged(const std::string& text, const std::string& path) {
  try {
    return writeDeck(parseDeck(text, path)) == text;
  } catch (const UserError&) { // from another version, or not even a deck
    return false;
  }
}

/// The text of `deck.toml`, which `plan deck` may have put there; empty if there is none.
std::string deckIn(const std::string& run_directory) {
  const std::string path = run_directory + "/deck.toml";
  return regularFileExists(path) ? unsealed(readTextFile(path, most_deck_bytes), deckOutput())
                                 : std::string();
}

/// May somebody have edited `deck.toml`? Results show how it was. If there are none, only the form of the
/// text can tell.
bool isEdited(const std::string& run_directory, const std::string& deck) {
  const std::string old = deckIn(run_directory);
  if (old.empty() || old == deck) return false;
  const std::vector<StoredDeck> stored = storedDecks(run_directory, old);
  if (stored.empty()) return !isUnchanged(old, run_directory + "/deck.toml");
  return stored.back().text != old;
}

/// Throws UserError if a file that the run goes on writing cannot be written: before anything is changed.
/// What a link leads to is only read.
void refuseReadOnly(const std::string& run_directory, const std::string& deck, const TakenOver& kept) {
  const auto is_read_only = [](const std::string& path) {
    std::error_code ignored;
    return !fs::is_symlink(path, ignored) && access(path.c_str(), F_OK) == 0 &&
           access(path.c_str(), W_OK) != 0;
  };
  std::vector<std::string> paths = growingFilesIn(run_directory, kept);
  const std::string of_deck = run_directory + "/deck.toml";
  const bool rewrites =
      is_read_only(of_deck) && deckIn(run_directory) != deck && !isEdited(run_directory, deck);
  if (rewrites) paths.push_back(of_deck);
  for (const std::string& path : paths)
    if (is_read_only(path)) failFile(path, "cannot be written", errno);
}

/// Sets `deck.toml` aside if somebody may have edited it; this comes before results are removed. A run that
/// continued with another deck and was killed early leaves a deck that no result has: the warning claims no
/// more than that.
void keepEditedDeck(const std::string& run_directory, const std::string& deck) {
  if (!isEdited(run_directory, deck)) return;
  const std::string path = run_directory + "/deck.toml";
  const std::vector<StoredDeck> stored = storedDecks(run_directory, deckIn(run_directory));
  if (stored.empty()) {
    Log::warning("the deck in the run directory had been edited and was renamed to " + setAside(path));
  } else {
    Log::warning("the deck in the run directory differs from that of " + stored.front().file +
                 " and was renamed to " + setAside(path));
  }
}

void writeEffectiveDeck(const std::string& run_directory, const std::string& deck) {
  if (deckIn(run_directory) == deck) return;
  OutputFile file(run_directory + "/deck.toml");
  file.write(deck);
  file.commit();
}

} // namespace

/// An advisory lock that the system releases with the process, however that ends.
class RunDirectory::Lock {
 public:
  explicit Lock(const std::string& folder)
      : _folder(folder), _path(folder + "/" + lock_name), _name(ownName()) {
    do {
      take(folder);
    } while (!leadsTo(_path, _file)); // the previous holder has just removed the file that it had locked
    _known = stat(folder.c_str(), &_place) == 0;
    // If there is no room for the name, the lock holds without it.
    _named = ftruncate(_file, 0) == 0 &&
             pwrite(_file, _name.data(), _name.size(), 0) == static_cast<ssize_t>(_name.size());
  }
  ~Lock() {
    if (_file < 0) return;
    if (_locked && leadsTo(_path, _file))
      unlink(_path.c_str()); // otherwise it may be the lock of another run
    close(_file);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  /// The text that other ranks find in the file; empty if there was no room for it.
  std::string token() const { return _named ? _name : std::string(); }

  /// Returns whether the path leads nowhere by now, or to another folder. An error of the file system says
  /// nothing about that, nor does a lock file that somebody has removed.
  bool folderMoved() const {
    struct stat now {};
    if (!_known) return false;
    if (stat(_folder.c_str(), &now) != 0) return errno == ENOENT || errno == ENOTDIR;
    return now.st_dev != _place.st_dev || now.st_ino != _place.st_ino;
  }

 private:
  /// Throws without running the destructor, which would remove another run's file.
  [[noreturn]] void refuse(const std::string& message) {
    if (_file >= 0) close(_file);
    _file = -1;
    throw UserError(message);
  }

  void take(const std::string& folder) {
    if (_file >= 0) close(_file);
    _file = open(_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0644);
    if (_file < 0) failFile("run directory '" + folder + "'", "cannot be written to", errno);
    std::array<char, 512> text{};
    const ssize_t size = pread(_file, text.data(), text.size() - 1, 0);
    if (size < 0 || (size > 0 && std::strncmp(text.data(), lock_mark, std::strlen(lock_mark)) != 0))
      refuse(_path + ": is not a Partita file and would be overwritten; choose another run directory");
    _locked = flock(_file, LOCK_EX | LOCK_NB) == 0;
    if (_locked) return;
    const int reason = errno;
    const std::string holder = firstLine(text.data());
    if (reason == EWOULDBLOCK)
      refuse("run directory '" + folder + "' is in use by " + (holder.empty() ? "another run" : holder));
    Log::warning("run directory '" + folder + "' cannot be locked (" + std::strerror(reason) +
                 "): make sure that no other job uses it");
  }

  std::string _folder, _path, _name;
  int _file = -1;
  bool _named = false, _locked = false;
  struct stat _place {}; ///< of the folder, if that is known
  bool _known = false;
};

RunDirectory::RunDirectory(const Communicator& world, std::string path) : _path(std::move(path)) {
  if (_path.empty()) return;
  collectively(world, [&] {
    if (world.rank() != 0) return;
    std::error_code error;
    fs::create_directories(_path, error);
    if (error) failFile("run directory '" + _path + "'", "cannot be created", error.value());
    _lock = std::make_shared<Lock>(_path);
    refuseForeignFiles(_path);
  });
  requireVisible(world);
}

/// Ranks write checkpoints and parameters together: with a folder local to one node they would wait forever.
/// Network file systems may show a new file some seconds late.
void RunDirectory::requireVisible(const Communicator& world) const {
  constexpr int attempts = 100;
  const std::string token = broadcast(world, _lock != nullptr ? _lock->token() : std::string());
  if (token.empty()) return;
  collectively(world, [&] {
    for (int i = 0; i < attempts; ++i) {
      std::error_code ignored;
      static_cast<void>(entriesOf(_path, ignored)); // refreshes what this node knows of the folder
      std::ifstream written(file(lock_name));
      const std::string found{std::istreambuf_iterator<char>(written), {}};
      if (found == token) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    throw UserError("run directory '" + _path + "' on rank " + std::to_string(world.rank()) +
                    " is not that of rank 0; all nodes must see the same folder");
  });
}

bool RunDirectory::moved() const {
  return _lock != nullptr && _lock->folderMoved();
}

void RunDirectory::requireInPlace() const {
  if (moved())
    throw SystemError("run directory '" + _path +
                      "' was moved or removed during the run, so nothing more is written there");
}

std::string RunDirectory::nameHere(const std::string& checkpoint) const {
  std::error_code ignored;
  if (checkpoint.empty()) return "";
  const auto is_here = [&](const fs::path& name) {
    return fs::equivalent(name.parent_path(), file(checkpoint_folder), ignored);
  };
  // A checkpoint of the run may be a link to elsewhere; any other link stands for the file it leads to.
  const fs::path name = fs::absolute(checkpoint, ignored), target = fs::weakly_canonical(checkpoint, ignored);
  if (checkpointStep(name.string()) >= 0 && is_here(name)) return name.string();
  return is_here(target) ? target.string() : "";
}

bool RunDirectory::owns(const std::string& checkpoint) const {
  return !nameHere(checkpoint).empty();
}

void RunDirectory::admit(const Communicator& world, const RunStart& start) const {
  if (!exists()) return;
  collectively(world, [&] {
    if (world.rank() != 0 || start.overwrite) return;
    const std::vector<std::string> results = resultsIn(_path), checkpoints = checkpointsIn(_path);
    std::error_code ignored;
    const bool newest = !checkpoints.empty() && fs::equivalent(start.file, checkpoints.front(), ignored);
    const bool goes_back = !start.latest && owns(start.file) && holdsFinishedRun(_path) && !newest;
    const bool goes_on = !goes_back && (owns(start.file) || (start.latest && !holdsFinishedRun(_path)));
    if (results.empty() || goes_on) return;
    if (start.latest && start.file.empty())
      throw UserError(
          "run directory '" + _path +
          "': parameters.h5 of the finished run is damaged, and there is no checkpoint to continue "
          "from; replace the run with --overwrite, or use another directory, such as -d " +
          freeName(_path));
    throw UserError("run directory '" + _path + "' has " + results.front() +
                    " of an earlier run: continue it with -r latest, replace it with --overwrite, or use "
                    "another directory, such as -d " +
                    freeName(_path));
  });
}

std::string RunDirectory::prepare(const Communicator& world, const std::string& deck, const RunStart& start,
                                  const TakenOver& taken) const {
  if (!exists()) return start.file;
  std::string begin = start.file;
  collectively(world, [&] {
    if (world.rank() != 0) return;
    const bool own = owns(start.file);
    TakenOver kept = own ? taken : TakenOver{};
    kept.results =
        kept.results && !holdsFinishedRun(_path); // whose results may differ from those of this run
    refuseReadOnly(_path, deck, kept);
    takeCheckpointRequest(); // a request from before the run
    removeUnfinishedFiles(_path);
    for (const std::string& path : setLinksAside(_path, kept))
      Log::warning("a link in the run directory was renamed to " + path +
                   ": the run writes a file of its own in its place");
    keepEditedDeck(_path, deck);
    writeEffectiveDeck(_path, deck); // before anything is removed, because it may fail
    const bool damaged = start.latest && start.file.empty() && !checkpointsIn(_path).empty();
    if (start.overwrite && !own && !damaged) discardResults(_path, start.file);
    std::error_code ignored;
    const std::string parameters = file("parameters.h5");
    const bool begins_there = fs::equivalent(start.file, parameters, ignored);
    for (const std::string& path : setResultsAside(_path, kept)) {
      Log::info("a result of an earlier run was renamed to " + path);
      if (begins_there && path.rfind(parameters, 0) == 0) begin = path;
    }
    for (const std::string& path : setAsideLater(_path, nameHere(start.file)))
      Log::warning("a checkpoint that this run does not continue from was renamed to " + path);
  });
  return broadcast(world, begin);
}

void RunDirectory::makeRoom(const std::vector<std::string>& names) const {
  requireInPlace();
  for (const std::string& path : setForeignAside(_path, names))
    Log::warning("a file with the name of a result was renamed to " + path + "; the run did not write it");
}

bool RunDirectory::takeCheckpointRequest() const {
  constexpr std::uintmax_t most_bytes = 256; // for `touch` or `echo`; a larger file is somebody's data
  const std::string request = file(output_request);
  std::error_code missing, ignored;
  const std::uintmax_t size = exists() && !moved() ? fs::file_size(request, missing) : most_bytes + 1;
  return !missing && size <= most_bytes && fs::remove(request, ignored);
}

std::string RunDirectory::scratch() const {
  if (exists()) return _path;
  return temporaryFolder();
}

} // namespace partita
