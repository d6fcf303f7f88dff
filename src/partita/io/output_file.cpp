#include "partita/io/output_file.hpp"

#include "partita/config/user_error.hpp"
#include "partita/io/durable.hpp"

#include <cerrno>
#include <cstring>

namespace partita {

OutputFile::OutputFile(const std::string& path)
    : _path(path), _partial(path + ".partial"), _file(std::fopen(_partial.c_str(), "wb")) {
  if (_file == nullptr) fail();
}

OutputFile::~OutputFile() {
  if (_file == nullptr) return;
  std::fclose(_file);
  std::remove(_partial.c_str());
}

void OutputFile::fail() const {
  throw UserError(_path + ": cannot be written: " + std::strerror(errno));
}

void OutputFile::write(const void* data, std::size_t bytes) {
  if (bytes > 0 && std::fwrite(data, 1, bytes, _file) != bytes) fail();
  _size += bytes;
}

void OutputFile::replace(std::uint64_t offset, const std::string& bytes) {
  if (fseeko(_file, static_cast<off_t>(offset), SEEK_SET) != 0) fail();
  if (std::fwrite(bytes.data(), 1, bytes.size(), _file) != bytes.size()) fail();
  if (fseeko(_file, 0, SEEK_END) != 0) fail();
}

void OutputFile::commit() {
  if (std::fflush(_file) != 0) fail();
  // Renamed before it is on the disk, an empty file could be left under the name after a crash.
  syncFile(_partial);
  publishFile(_partial, _path);
  std::fclose(_file);
  _file = nullptr;
}

} // namespace partita
