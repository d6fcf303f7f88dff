#include "partita/io/durable.hpp"

#include "partita/config/files.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace partita {

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
