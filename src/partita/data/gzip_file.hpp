#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace partita {

/// The same name with ".gz", or without it if `path` has it.
std::string twinOf(const std::string& path);

/// Returns `path` if it is a regular file, otherwise its `twinOf`. Throws UserError that names the most
/// similar file in the folder.
std::string findFile(const std::string& path);

/// A file read sequentially, decompressed if its content (not its name) is gzip. Errors of the
/// system and of the gzip stream (corrupt, truncated, wrong checksum, followed by other bytes) are
/// UserError with the file's name. zlib's `gzread` would ignore bytes after the stream, even a
/// second stream with a damaged header.
class GzipFile {
 public:
  static constexpr std::size_t block_bytes = std::size_t{1} << 20; ///< read in one call

  explicit GzipFile(const std::string& path);

  const std::string& name() const { return _name; }

  /// Decompressed bytes read so far, which is where the next `read` starts.
  std::uint64_t position() const { return _position; }

  /// Reads up to `count` bytes; fewer only at the end of the file.
  std::size_t read(void* out, std::size_t count);

  std::string readAll();

 private:
  struct EndStream {
    void operator()(z_stream* stream) const;
  };

  std::size_t fill(std::size_t fewest);
  bool streamStarts();
  bool nextStream();
  std::size_t copy(unsigned char* out, std::size_t count);
  std::size_t decompress(unsigned char* out, std::size_t count);
  [[noreturn]] void failStream(int status, std::uint64_t position) const;

  std::string _name;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> _file;
  std::unique_ptr<z_stream, EndStream> _stream; ///< none if the content is not gzip
  bool _in_stream = false;                      ///< not between gzip streams, nor after the last
  std::vector<unsigned char> _input;            ///< bytes of the file; those from _begin to _end wait
  std::size_t _begin = 0, _end = 0;
  std::uint64_t _position = 0;
};

} // namespace partita
