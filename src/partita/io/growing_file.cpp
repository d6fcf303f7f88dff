#include "partita/io/growing_file.hpp"

#include "partita/config/files.hpp"
#include "partita/core/log.hpp"
#include "partita/io/output_file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace partita {

namespace {

std::string replacedBy(std::string path, const std::string& rows) {
  OutputFile renewed(path);
  renewed.write(rows);
  renewed.commit();
  return path;
}

} // namespace

GrowingFile::GrowingFile(std::string path) : _path(std::move(path)) {
  _file = open(_path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (_file < 0) failFile(_path, "cannot be written", errno);
}

GrowingFile::GrowingFile(std::string path, const std::string& rows)
    : GrowingFile(replacedBy(std::move(path), rows)) {}

GrowingFile::~GrowingFile() {
  close(_file);
}

bool GrowingFile::writeWaiting() {
  while (!_waiting.empty()) {
    const ssize_t written = write(_file, _waiting.data(), _waiting.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    _waiting.erase(0, written);
  }
  return true;
}

void GrowingFile::append(const std::string& rows) {
  _waiting += rows;
  if (writeWaiting() || _warned) return;
  Log::warning(_path + ": cannot be written: " + std::strerror(errno) +
               "; its rows are kept in memory until writing succeeds");
  _warned = true;
}

void GrowingFile::flush() {
  if (!writeWaiting()) failFile(_path, "cannot be written", errno);
  if (_lost || leadsTo(_path, _file)) return;
  _lost = true;
  Log::warning(_path + ": was removed or replaced during the run; its rows are lost");
}

void GrowingFile::synchronise() {
  flush();
  if (!_lost && !partita::synchronise(_file)) failFile(_path, "cannot be written", errno);
}

} // namespace partita
