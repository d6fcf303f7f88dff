#include "partita/io/output_file.hpp"

#include "partita/config/files.hpp"
#include "partita/config/user_error.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace partita {

namespace fs = std::filesystem;

namespace {

/// Names of unfinished files, stored where a signal handler can read them.
struct Unfinished {
  std::atomic<bool> taken{false}, complete{false};
  std::array<char, 4096> name{};
};
std::array<Unfinished, 16> unfinished;

void remember(const std::string& name) {
  for (Unfinished& entry : unfinished) {
    bool free = false;
    if (name.size() >= entry.name.size() || !entry.taken.compare_exchange_strong(free, true)) continue;
    std::memcpy(entry.name.data(), name.c_str(), name.size() + 1);
    entry.complete = true;
    return;
  }
}

void forget(const std::string& name) {
  for (Unfinished& entry : unfinished) {
    if (!entry.complete || name != entry.name.data()) continue;
    entry.complete = false;
    entry.taken = false;
    return;
  }
}

/// Follows a chain of links to its target. Stops at descriptors of this process, such as /dev/stdout, which
/// cannot be replaced.
std::string resolveLinks(std::string path) {
  constexpr int most_links = 40; // the limit of Linux; stat has already reported loops
  std::error_code ignored;
  for (int i = 0; i < most_links && fs::is_symlink(path, ignored) && path.rfind("/proc/", 0) != 0; ++i) {
    const fs::path to = fs::read_symlink(path, ignored);
    path = (to.is_absolute() ? to : fs::path(path).parent_path() / to).string();
  }
  return path;
}

/// Retries, because the reader of a pipe may open it a little later.
int openForWriting(const std::string& path) {
  constexpr int attempts = 100;
  int file = -1;
  for (int i = 0; i < attempts && file < 0; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    file = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 && errno != ENXIO) return file;
  }
  if (file >= 0) fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
  return file;
}

} // namespace

OutputFile::OutputFile(const std::string& path) : _path(path), _target(resolveLinks(path)) {
  struct stat found {};
  const bool exists = stat(path.c_str(), &found) == 0;
  if (!exists && errno != ENOENT) fail();
  if (exists && S_ISDIR(found.st_mode)) {
    errno = EISDIR;
    fail();
  }
  const bool replaced = !exists || (S_ISREG(found.st_mode) && _target.rfind("/proc/", 0) != 0);
  replaced ? openPartial() : openDirect();
  if (_file == nullptr) fail();
  if (replaced && exists) fchmod(fileno(_file), found.st_mode & 07777); // a private file stays private
}

/// Never opens an existing file: it may be somebody's.
void OutputFile::openPartial() {
  if (access(_target.c_str(), F_OK) == 0 && access(_target.c_str(), W_OK) != 0) fail();
  int file = -1;
  for (int number = 1; file < 0; ++number) {
    _partial = _target + ".partial" + (number > 1 ? "-" + std::to_string(number) : "");
    if (access(_partial.c_str(), F_OK) == 0) continue;
    remember(_partial); // before it exists, so that a signal finds its name
    file = open(_partial.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0) break;
    forget(_partial);
    if (errno != EEXIST) fail();
  }
  _file = fdopen(file, "wb");
}

void OutputFile::openDirect() {
  _direct = openForWriting(_path);
  if (_direct < 0) fail();
  // Archives seek back to fill in values known later, which a pipe does not allow.
  const char* const folder = std::getenv("TMPDIR");
  std::string name = std::string(folder != nullptr ? folder : "/tmp") + "/partita-output-XXXXXX";
  const int file = mkstemp(name.data());
  if (file < 0) failFile(name, "cannot be written", errno);
  unlink(name.c_str());
  _file = fdopen(file, "w+b");
}

OutputFile::~OutputFile() {
  if (_file != nullptr) std::fclose(_file);
  if (_direct >= 0) close(_direct);
  if (_partial.empty()) return;
  std::remove(_partial.c_str());
  forget(_partial);
}

void OutputFile::fail() const {
  failFile(_path, "cannot be written", errno);
}

void OutputFile::write(const void* data, std::size_t bytes) {
  if (bytes > 0 && std::fwrite(data, 1, bytes, _file) != bytes) fail();
  _size += bytes;
}

void OutputFile::replace(std::uint64_t offset, const std::string& bytes) {
  if (fseeko(_file, offset, SEEK_SET) != 0) fail();
  if (std::fwrite(bytes.data(), 1, bytes.size(), _file) != bytes.size()) fail();
  if (fseeko(_file, 0, SEEK_END) != 0) fail();
}

void OutputFile::copyToTarget() {
  std::array<char, 1 << 16> block{};
  std::rewind(_file);
  for (std::size_t got = 0; (got = std::fread(block.data(), 1, block.size(), _file)) > 0;) {
    for (std::size_t done = 0; done < got;) {
      const ssize_t written = ::write(_direct, block.data() + done, got - done);
      if (written < 0 && errno != EINTR) fail();
      if (written > 0) done += written;
    }
  }
  if (std::ferror(_file) != 0) fail();
}

void OutputFile::commit() {
  if (std::fflush(_file) != 0) fail();
  if (_direct >= 0) return copyToTarget();
  // If the file were renamed before it is on disk, a crash could leave an empty file under the name.
  syncFile(_partial);
  publishFile(_partial, _target);
  forget(_partial);
  _partial.clear();
}

void OutputFile::removeUnfinished() {
  for (const Unfinished& entry : unfinished)
    if (entry.complete) unlink(entry.name.data());
}

void refuseInput(const std::string& output, const std::vector<std::string>& inputs) {
  std::error_code ignored;
  for (const std::string& input : inputs)
    if (fs::equivalent(output, input, ignored))
      throw UserError(output + ": is also an input, as '" + input + "'; choose another name for the output");
}

void refuseSameOutput(const std::string& one, const std::string& other) {
  if (one.empty() || other.empty()) return;
  std::error_code ignored;
  const auto whole = [&](const std::string& path) {
    return fs::weakly_canonical(fs::absolute(path, ignored), ignored);
  };
  const bool special = fs::exists(one, ignored) && !fs::is_regular_file(one, ignored);
  if (!special && whole(one) == whole(other))
    throw UserError(other + ": two outputs have this name; choose another one for one of them");
}

namespace {

[[noreturn]] void systemFailure(const std::string& path) {
  failFile(path, "cannot be written", errno);
}

} // namespace

WriteBehind::WriteBehind(const std::string& path) : _file(open(path.c_str(), O_WRONLY | O_CLOEXEC)) {}

WriteBehind::~WriteBehind() {
  if (_file >= 0) ::close(_file);
}

void WriteBehind::start() const {
#ifdef SYNC_FILE_RANGE_WRITE
  if (_file >= 0) sync_file_range(_file, 0, 0, SYNC_FILE_RANGE_WRITE);
#endif
}

void syncFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) systemFailure(path);
  const int reason = fsync(file) == 0 ? 0 : errno;
  ::close(file);
  errno = reason;
  if (reason != 0 && reason != EINVAL) systemFailure(path); // some file systems have nothing to synchronise
}

void publishFile(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) systemFailure(to);
  const std::filesystem::path folder = std::filesystem::path(to).parent_path();
  syncFile(folder.empty() ? "." : folder.string());
}

} // namespace partita
