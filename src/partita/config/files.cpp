#include "partita/config/files.hpp"

#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace partita {

namespace {

/// A file descriptor for reading; negative if the system refuses.
class Reading {
 public:
  explicit Reading(const std::string& path)
      : _file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), _reason(_file < 0 ? errno : 0) {}
  ~Reading() {
    if (_file >= 0) close(_file);
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  int reason() const { return _reason; } ///< errno of the call that failed; 0: none failed

  /// Skips to the next place with data, so that a hole of hundreds of GB costs no time.
  void skipHole() {
#ifdef SEEK_DATA
    const off_t here = lseek(_file, 0, SEEK_CUR);
    if (lseek(_file, here, SEEK_DATA) >= 0) return;
    const bool no_more_data = errno == ENXIO; // some file systems do not support holes
    lseek(_file, no_more_data ? 0 : here, no_more_data ? SEEK_END : SEEK_SET);
#endif
  }

  /// Bytes read; 0 at the end and if the call fails.
  std::size_t read(char* to, std::size_t count) {
    ssize_t got = -1;
    while (_file >= 0 && (got = ::read(_file, to, count)) < 0 && errno == EINTR) continue;
    if (got < 0 && _reason == 0) _reason = errno;
    return got < 0 ? 0 : got;
  }

 private:
  int _file, _reason;
};

bool isContinuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

/// Length of the valid UTF-8 sequence at `at`; 0 if there is none (RFC 3629, section 4).
std::size_t sequenceLength(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (!isContinuation(text[at + i])) return 0;
  const unsigned char second = byte(at + 1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second > 0x9F, beyond = first == 0xF4 && second > 0x8F;
  return overlong || surrogate || beyond ? 0 : length;
}

} // namespace

void failFile(const std::string& path, const std::string& what, int reason) {
  const std::string message = path + ": " + what + ": " + std::strerror(reason);
  switch (reason) {
  case ENOSPC:
  case EDQUOT:
  case EFBIG:
  case EIO:
  case ENOMEM:
  case ESTALE:
    throw SystemError(message);
  default:
    throw UserError(message);
  }
}

bool regularFileExists(const std::string& path, const std::string& instead) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    failFile(path, "cannot be read", errno);
  }
  if (S_ISDIR(found.st_mode)) throw UserError(path + ": is a folder" + instead);
  if (!S_ISREG(found.st_mode)) throw UserError(path + ": is not a regular file");
  return true;
}

std::string readTextFile(const std::string& path, std::uint64_t most_bytes) {
  constexpr std::size_t block = 1 << 16;
  Reading file(path);
  std::string text;
  for (std::size_t got = 1; got > 0 && text.size() <= most_bytes;) {
    const std::size_t before = text.size();
    text.resize(before + block);
    got = file.read(text.data() + before, block);
    text.resize(before + got);
  }
  if (file.reason() != 0) failFile(path, "cannot be read", file.reason());
  if (text.size() > most_bytes)
    throw UserError(path + ": is larger than " + std::to_string(most_bytes) + " bytes");
  return text;
}

std::string firstBytes(const std::string& path, std::size_t count) {
  Reading file(path);
  std::string start(count, '\0');
  start.resize(file.read(start.data(), count));
  if (file.reason() != 0) failFile(path, "cannot be read", file.reason());
  return start;
}

std::vector<std::filesystem::path> entriesOf(const std::string& folder, std::error_code& error) {
  std::vector<std::filesystem::path> entries;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    entries.push_back(entry->path());
  return entries;
}

std::string nearestInFolder(const std::string& name) {
  const std::filesystem::path path(name);
  const std::filesystem::path folder =
      path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return "; there is no folder '" + folder.string() + "'";
  std::vector<std::string> names;
  for (const std::filesystem::path& entry : entriesOf(folder.string(), error))
    names.push_back(entry.filename().string());
  std::sort(names.begin(), names.end());
  return nearby(path.filename().string(), names);
}

int readFailure(const std::string& path) {
  Reading file(path);
  std::vector<char> block(std::size_t{1} << 20);
  do {
    file.skipHole();
  } while (file.read(block.data(), block.size()) > 0);
  return file.reason();
}

int allocateBlocks(int file, std::uint64_t from, std::uint64_t bytes) {
  // On some file systems a signal interrupts the call, which then has allocated nothing: with a signal every
  // few milliseconds, as a profiler sends, a large file would never be complete. How much succeeds between
  // two signals depends on the load of the machine.
  constexpr std::uint64_t least = std::uint64_t{64} << 10, most = std::uint64_t{16} << 20;
  std::uint64_t piece = most;
  int error = 0;
  for (std::uint64_t done = 0; done < bytes && (error == 0 || error == EINTR);) {
    const std::uint64_t next = std::min(piece, bytes - done);
    error = posix_fallocate(file, static_cast<off_t>(from + done), static_cast<off_t>(next));
    if (error == 0) done += next;
    piece = error == EINTR ? std::max(least, next / 2) : std::min(most, 2 * piece);
  }
  return error;
}

bool leadsTo(const std::string& path, int descriptor) {
  struct stat by_name {
  }, by_file{};
  return stat(path.c_str(), &by_name) == 0 && fstat(descriptor, &by_file) == 0 &&
         by_name.st_dev == by_file.st_dev && by_name.st_ino == by_file.st_ino;
}

std::string validUtf8(const std::string& text) {
  std::string valid;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequenceLength(text, i);
    valid += length > 0 ? text.substr(i, length) : "\xEF\xBF\xBD";
    i += length > 0 ? length : 1;
  }
  return valid;
}

} // namespace partita
