#include "partita/io/output_file.hpp"

#include "partita/config/files.hpp"
#include "partita/config/user_error.hpp"

#include <array>
#include <atomic>
#include <bitset>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace partita {

namespace fs = std::filesystem;

namespace {

/// Names of unfinished files and which files these are, stored where a signal handler can read them: by then
/// another process may have a file of that name.
struct Unfinished {
  std::atomic<bool> taken{false}, complete{false};
  std::array<char, 4096> name{};
  struct stat file {};
};
std::array<Unfinished, 16> unfinished;

void remember(const std::string& name, int file) {
  for (Unfinished& entry : unfinished) {
    bool free = false;
    if (name.size() >= entry.name.size() || !entry.taken.compare_exchange_strong(free, true)) continue;
    std::memcpy(entry.name.data(), name.c_str(), name.size() + 1);
    const bool known = fstat(file, &entry.file) == 0;
    entry.complete = known;
    entry.taken = known;
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

/// The folder that a path is in, without links; empty if there is none.
std::string folderOf(const std::string& path) {
  std::error_code none;
  return fs::canonical(fs::absolute(path, none).parent_path(), none).string();
}

/// Links in /proc stand for what a process has opened. They are not followed: a file would then be replaced
/// under the name that it once had.
bool isInProc(const std::string& path) {
  return folderOf(path).rfind("/proc/", 0) == 0;
}

/// The number of the descriptor of this process that a path names, as /dev/fd/3 does; -1 if it names none.
/// The descriptor need not be open.
int descriptorOf(const std::string& path) {
  constexpr std::size_t most_digits = 9;
  std::error_code none;
  const std::string self = fs::canonical("/proc/self", none).string();
  const std::string folder = folderOf(path), name = fs::path(path).filename().string();
  const bool of_thread = folder.rfind(self + "/task/", 0) == 0 && fs::path(folder).filename() == "fd";
  if (self.empty() || (folder != self + "/fd" && !of_thread)) return -1;
  const bool number = !name.empty() && name.size() <= most_digits &&
                      name.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::stoi(name) : -1;
}

constexpr int most_descriptors = 1024; // the usual limit of a process

/// The descriptors with which a program begins. They lack the mark of those that it opens for itself.
std::bitset<most_descriptors> descriptorsAtStart() {
  std::bitset<most_descriptors> found;
  for (int number = 0; number < most_descriptors; ++number) {
    const int marks = fcntl(number, F_GETFD);
    if (marks >= 0 && (marks & FD_CLOEXEC) == 0) found.set(static_cast<std::size_t>(number));
  }
  return found;
}

/// Found before `main`. A user who names a descriptor that was not open by then cannot mean what MPI has
/// opened under this number since.
const std::bitset<most_descriptors> handed_over = descriptorsAtStart();

bool isOpenForWriting(int descriptor) {
  const int mode = fcntl(descriptor, F_GETFL);
  return descriptor < most_descriptors && handed_over.test(static_cast<std::size_t>(descriptor)) &&
         mode >= 0 && (mode & O_ACCMODE) != O_RDONLY;
}

/// Follows a chain of links to its target.
std::string resolveLinks(std::string path) {
  constexpr int most_links = 40; // the limit of Linux; opening the file reports loops
  std::error_code ignored;
  for (int i = 0; i < most_links && fs::is_symlink(path, ignored) && !isInProc(path); ++i) {
    const fs::path to = fs::read_symlink(path, ignored);
    path = (to.is_absolute() ? to : fs::path(path).parent_path() / to).string();
  }
  return path;
}

/// Retries, because the reader of a pipe may open it a little later. A regular file gets here only
/// if another process has it open; then the output is appended to it.
int openForWriting(const std::string& path) {
  constexpr int attempts = 100;
  int file = -1;
  for (int i = 0; i < attempts && file < 0; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    file = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 && errno != ENXIO) return file;
  }
  if (file >= 0) fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
  return file;
}

/// Returns whether all bytes could be written; if not, errno says why. Waits if the descriptor is
/// non-blocking: another process that shares it may have set this, and may need it.
bool writeAll(int file, const char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t written = ::write(file, bytes, count);
    if (written < 0 && errno == EAGAIN) {
      pollfd ready{file, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else if (written < 0 && errno != EINTR) {
      return false;
    } else if (written > 0) {
      bytes += written;
      count -= static_cast<std::size_t>(written);
    }
  }
  return true;
}

} // namespace

bool synchronise(int file) {
  return fsync(file) == 0 || errno == EINVAL; // some file systems have nothing to synchronise
}

OutputFile::OutputFile(const std::string& path) : _path(path), _target(resolveLinks(path)) {
  const int descriptor = descriptorOf(_target);
  descriptor >= 0 ? openDescriptor(descriptor) : openPath();
  if (_file == nullptr) fail();
}

void OutputFile::openPath() {
  struct stat found {};
  const bool exists = stat(_path.c_str(), &found) == 0;
  if (!exists && errno != ENOENT) fail();
  if (exists && S_ISDIR(found.st_mode)) {
    errno = EISDIR;
    fail();
  }
  const bool replaced = !exists || (S_ISREG(found.st_mode) && !isInProc(_target));
  replaced ? openPartial() : openDirect();
  if (_file != nullptr && replaced && exists)
    fchmod(fileno(_file), found.st_mode & 07777); // a private file stays private
}

/// Never opens an existing file: it may be somebody's.
void OutputFile::openPartial() {
  if (access(_target.c_str(), F_OK) == 0 && access(_target.c_str(), W_OK) != 0) fail();
  int file = -1;
  for (int number = 1; file < 0; ++number) {
    _partial = _target + ".partial" + (number > 1 ? "-" + std::to_string(number) : "");
    if (access(_partial.c_str(), F_OK) == 0) continue;
    file = open(_partial.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno != EEXIST) fail();
  }
  remember(_partial, file);
  _file = fdopen(file, "wb");
}

void OutputFile::openDirect() {
  _direct = openForWriting(_path);
  if (_direct < 0) fail();
  openScratch();
}

/// The descriptor is not opened again: its place in the file and whether it appends are the choice of whoever
/// opened it.
void OutputFile::openDescriptor(int number) {
  if (!isOpenForWriting(number))
    throw UserError(_path + ": descriptor " + std::to_string(number) + " is not open for writing");
  _direct = fcntl(number, F_DUPFD_CLOEXEC, 0);
  if (_direct < 0) fail();
  openScratch();
}

/// Archives seek back to fill in values known later, which a pipe does not allow.
void OutputFile::openScratch() {
  std::string name = temporaryFolder() + "/partita-output-XXXXXX";
  const int file = mkstemp(name.data());
  if (file < 0) failFile(name, "cannot be written", errno);
  unlink(name.c_str());
  _file = fdopen(file, "w+b");
}

OutputFile::~OutputFile() {
  const bool unfinished_here = !_partial.empty() && leadsTo(_partial, fileno(_file));
  if (unfinished_here) std::remove(_partial.c_str());
  if (!_partial.empty()) forget(_partial);
  if (_file != nullptr) std::fclose(_file);
  if (_direct >= 0) close(_direct);
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
  std::fflush(stdout); // which may be the target, where what has been printed comes first
  for (std::size_t got = 0; (got = std::fread(block.data(), 1, block.size(), _file)) > 0;)
    if (!writeAll(_direct, block.data(), got)) fail();
  if (std::ferror(_file) != 0) fail();
}

void OutputFile::commit() {
  if (std::fflush(_file) != 0) fail();
  if (_direct >= 0) return copyToTarget();
  // If the file were renamed before it is on disk, a crash could leave an empty file under the name.
  if (!synchronise(fileno(_file))) fail();
  publishFile(_partial, _target);
  forget(_partial);
  _partial.clear();
}

void OutputFile::removeUnfinished() {
  for (const Unfinished& entry : unfinished) {
    struct stat now {};
    if (entry.complete && lstat(entry.name.data(), &now) == 0 && now.st_dev == entry.file.st_dev &&
        now.st_ino == entry.file.st_ino)
      unlink(entry.name.data());
  }
}

namespace {

/// The name without links and dots, of a file that need not exist.
fs::path wholeName(const std::string& path) {
  std::error_code ignored, failure;
  const fs::path name = fs::absolute(resolveLinks(path), ignored),
                 whole = fs::weakly_canonical(name, failure);
  return failure ? name.lexically_normal() : whole; // a folder may be closed to this user
}

/// Is one the name under which the other may be written?
bool isPartialName(const fs::path& one, const fs::path& other) {
  const std::string partial = other.string() + ".partial", name = one.string();
  if (name.rfind(partial, 0) != 0) return false;
  const std::string rest = name.substr(partial.size());
  return rest.empty() || (rest[0] == '-' && rest.find_first_not_of("0123456789", 1) == std::string::npos);
}

} // namespace

void refuseInput(const std::string& output, const std::vector<std::string>& inputs) {
  std::error_code ignored;
  const fs::path name = wholeName(output);
  for (const std::string& input : inputs) {
    if (fs::equivalent(output, input, ignored))
      throw UserError(output + ": is also an input, as '" + input + "'; choose another name for the output");
    if (wholeName(input) == name)
      throw UserError(output + ": is the name of a file that may be added to the input; choose another name");
  }
}

void refuseSameOutput(const std::string& one, const std::string& other) {
  if (one.empty() || other.empty()) return;
  std::error_code ignored;
  const bool special = fs::exists(one, ignored) && !fs::is_regular_file(one, ignored);
  if (!special && wholeName(one) == wholeName(other))
    throw UserError(other + ": two outputs have this name; give one of them a different name");
  if (isPartialName(wholeName(one), wholeName(other)) || isPartialName(wholeName(other), wholeName(one)))
    throw UserError(other + ": one output has the name of the other with .partial appended, which is needed "
                            "while the other is written; choose another name");
}

bool replacesContent(const std::string& path) {
  struct stat found {};
  const std::string target = resolveLinks(path);
  return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) && found.st_size > 0 && !isInProc(target);
}

bool isSameFile(const std::string& one, const std::string& other) {
  std::error_code ignored;
  return fs::equivalent(one, other, ignored) || wholeName(one) == wholeName(other);
}

std::string outputFolder(const std::string& path) {
  return wholeName(path).parent_path().string();
}

std::string temporaryFolder() {
  const char* const folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

namespace {

[[noreturn]] void systemFailure(const std::string& path) {
  failFile(path, "cannot be written", errno);
}

} // namespace

FolderLock::FolderLock(const std::string& path) {
  constexpr int attempts = 1000;
  _folder = open(outputFolder(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (int i = 0; i < attempts && mustWait(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

FolderLock::~FolderLock() {
  if (_folder >= 0) ::close(_folder);
}

bool FolderLock::mustWait() const {
  return flock(_folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

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
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); // no waiting at a pipe
  if (file < 0) systemFailure(path);
  const int reason = synchronise(file) ? 0 : errno;
  ::close(file);
  if (reason != 0) failFile(path, "cannot be written", reason);
}

void publishFile(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) systemFailure(to);
  // The file has its name now, and only a crash could still take it away: no reason to report a failure. A
  // folder in which files can be made need not be readable.
  const std::string folder = fs::path(to).parent_path().string();
  const int opened = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return;
  fsync(opened);
  ::close(opened);
}

} // namespace partita
