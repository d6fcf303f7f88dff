#pragma once

#include "partita/io/output_file.hpp"

#include <vector>

namespace partita {

/// A file inside a ZIP archive, stored as it is.
struct ZipMember {
  std::string name;
  std::uint64_t bytes = 0, offset = 0; ///< size, and where in the archive its header begins
  std::uint32_t crc = 0;
};

/// The records of a ZIP archive (PKWARE's APPNOTE 6.3, sections 4.3 and 4.5), in their 64-bit forms (ZIP64)
/// only where a number needs them.
std::string zipLocalHeader(const ZipMember& member);
std::string zipDirectoryEntry(const ZipMember& member);
std::string zipEnd(std::uint64_t members, std::uint64_t directory_offset, std::uint64_t directory_bytes);

/// Writes an archive member by member, in pieces.
class ZipWriter {
 public:
  explicit ZipWriter(const std::string& path) : _file(path) {}

  void begin(const std::string& name, std::uint64_t bytes); ///< the next member, of so many bytes
  void write(const void* data, std::size_t bytes);
  void commit(); ///< ends the archive; without it no file is left

 private:
  void endMember();

  OutputFile _file;
  std::vector<ZipMember> _members;
  std::uint64_t _missing = 0; ///< bytes of the last member still to come
};

} // namespace partita
