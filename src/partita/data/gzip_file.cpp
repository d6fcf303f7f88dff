#include "partita/data/gzip_file.hpp"

#include "partita/config/files.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/available_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>
#include <vector>

namespace partita {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t input_bytes = std::size_t{1} << 18;
constexpr int gzip_windows = 15 + 16; ///< for inflateInit2: windows of any size, in the format of gzip

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

void GzipFile::EndStream::operator()(z_stream* stream) const {
  inflateEnd(stream);
  delete stream;
}

GzipFile::GzipFile(const std::string& path)
    : _name(findFile(path)), _file(nullptr, std::fclose), _input(input_bytes) {
  errno = 0;
  _file.reset(std::fopen(_name.c_str(), "rb"));
  if (!_file) failFile(_name, "cannot be opened", errno);
  if (!streamStarts()) return;
  _stream.reset(new z_stream{});
  if (inflateInit2(_stream.get(), gzip_windows) != Z_OK) throw std::bad_alloc();
}

/// The number of bytes that wait, at least `fewest` unless the file ends before.
std::size_t GzipFile::fill(std::size_t fewest) {
  if (_end - _begin >= fewest) return _end - _begin;
  std::memmove(_input.data(), _input.data() + _begin, _end - _begin);
  _end -= _begin;
  _begin = 0;
  errno = 0;
  _end += std::fread(_input.data() + _end, 1, _input.size() - _end, _file.get());
  if (std::ferror(_file.get()) != 0) failFile(_name, "cannot be read", errno);
  return _end;
}

bool GzipFile::streamStarts() {
  return fill(2) >= 2 && _input[_begin] == 0x1f && _input[_begin + 1] == 0x8b;
}

/// Prepares for the gzip stream that starts here; false at the end of the file, which zeros may fill up.
bool GzipFile::nextStream() {
  if (streamStarts()) {
    inflateReset(_stream.get());
    return true;
  }
  while (fill(1) > 0) {
    if (_input[_begin++] != 0)
      throw UserError(_name + ": bytes follow the end of the compressed data, after " +
                      std::to_string(_position) + " decompressed bytes");
  }
  return false;
}

std::size_t GzipFile::copy(unsigned char* out, std::size_t count) {
  const std::size_t got = std::min(count, fill(1));
  std::copy_n(_input.data() + _begin, got, out);
  _begin += got;
  return got;
}

std::size_t GzipFile::decompress(unsigned char* out, std::size_t count) {
  z_stream& stream = *_stream;
  stream.next_out = out;
  stream.avail_out = static_cast<unsigned>(count);
  while (stream.avail_out == count) {
    if (!_in_stream && !nextStream()) break;
    stream.avail_in = static_cast<unsigned>(fill(1));
    stream.next_in = _input.data() + _begin;
    const int status = inflate(&stream, Z_NO_FLUSH);
    _begin = _end - stream.avail_in;
    _in_stream = status != Z_STREAM_END;
    if (status != Z_OK && status != Z_STREAM_END) failStream(status, _position + count - stream.avail_out);
  }
  return count - stream.avail_out;
}

void GzipFile::failStream(int status, std::uint64_t position) const {
  const std::string place = std::to_string(position) + " decompressed bytes";
  if (status == Z_BUF_ERROR) throw UserError(_name + ": truncated: the gzip stream ends after " + place);
  const char* message = _stream->msg != nullptr ? _stream->msg : zError(status);
  throw UserError(_name + ": corrupt gzip stream after " + place + " (" + message + ")");
}

std::size_t GzipFile::read(void* out, std::size_t count) {
  auto* bytes = static_cast<unsigned char*>(out);
  std::size_t done = 0;
  while (done < count) {
    const std::size_t wanted = std::min(count - done, block_bytes);
    const std::size_t got = _stream ? decompress(bytes + done, wanted) : copy(bytes + done, wanted);
    if (got == 0) break;
    done += got;
    _position += got;
  }
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
