#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace partita {

/// The same name with ".gz", or without it if `path` has it.
std::string twinOf(const std::string& path);

/// Returns `path` if it is a regular file, otherwise its twin. Throws UserError that names the most similar
/// file in the folder.
std::string findFile(const std::string& path);

/// A file read sequentially, decompressed if its content (not its name) is gzip. Errors of the system and of
/// the gzip stream (corrupt, truncated, wrong checksum) are UserError with the file's name.
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
  std::string _name;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> _file;
  std::uint64_t _position = 0;
};

} // namespace partita
