#include "partita/data/gzip_file.hpp"

#include "partita/config/files.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/available_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

namespace partita {

namespace fs = std::filesystem;

namespace {

std::string nearestInFolder(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code error;
  if (!fs::is_directory(folder, error)) return "; there is no folder '" + folder.string() + "'";
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder, error))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return nearby(path.filename().string(), names);
}

} // namespace

std::string twinOf(const std::string& path) {
  const bool compressed = fs::path(path).extension() == ".gz";
  return compressed ? path.substr(0, path.size() - 3) : path + ".gz";
}

std::string findFile(const std::string& path) {
  for (const std::string& candidate : {path, twinOf(path)}) {
    if (regularFileExists(candidate)) return candidate;
  }
  throw UserError(path + ": no such file" + nearestInFolder(path));
}

GzipFile::GzipFile(const std::string& path) : _name(findFile(path)), _file(nullptr, gzclose_r) {
  errno = 0;
  _file.reset(gzopen(_name.c_str(), "rb"));
  if (!_file) failFile(_name, "cannot be opened", errno);
  gzbuffer(_file.get(), 1U << 18);
}

std::size_t GzipFile::read(void* out, std::size_t count) {
  std::size_t done = 0;
  while (done < count) {
    const std::size_t wanted = std::min(count - done, block_bytes);
    errno = 0;
    const int got = gzread(_file.get(), static_cast<char*>(out) + done, static_cast<unsigned>(wanted));
    if (got > 0) done += got;
    if (got == static_cast<int>(wanted)) continue;

    // A truncated stream returns the data it has, with a short count, and reports Z_BUF_ERROR.
    int status = Z_OK;
    const char* message = gzerror(_file.get(), &status);
    if (status == Z_ERRNO) failFile(_name, "cannot be read", errno);
    if (status == Z_BUF_ERROR)
      throw UserError(_name + ": truncated: the gzip stream ends after " + std::to_string(_position + done) +
                      " decompressed bytes");
    if (status != Z_OK && status != Z_STREAM_END)
      throw UserError(_name + ": corrupt gzip stream after " + std::to_string(_position + done) +
                      " decompressed bytes (" + message + ")");
    break;
  }
  _position += done;
  return done;
}

std::string GzipFile::readAll() {
  std::error_code ignored;
  requireMemory(static_cast<double>(fs::file_size(_name, ignored)), _name);
  std::string text;
  std::size_t got = 0;
  do {
    const std::size_t before = text.size();
    text.resize(before + block_bytes);
    got = read(text.data() + before, block_bytes);
    text.resize(before + got);
    if (text.size() % (64 * block_bytes) == 0) requireMemory(static_cast<double>(text.size()), _name);
  } while (got == block_bytes);
  return text;
}

} // namespace partita
