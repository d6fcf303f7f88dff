#pragma once

#include "partita/io/joined_network.hpp"
#include "partita/io/output_file.hpp"

#include <vector>

namespace partita {

/// A file inside a ZIP archive, stored uncompressed.
struct ZipMember {
  std::string name;
  std::uint64_t bytes = 0, offset = 0; ///< size, and offset of its header in the archive
  std::uint32_t crc = 0;
};

/// The records of a ZIP archive (PKWARE's APPNOTE 6.3, sections 4.3 and 4.5), in 64-bit form (ZIP64) only if
/// a number needs it.
std::string zipLocalHeader(const ZipMember& member);
std::string zipDirectoryEntry(const ZipMember& member);
std::string zipEnd(std::uint64_t members, std::uint64_t directory_offset, std::uint64_t directory_bytes);

/// Writes an archive member by member, each in any number of chunks.
class ZipWriter {
 public:
  explicit ZipWriter(const std::string& path) : _file(path) {}

  void begin(const std::string& name, std::uint64_t bytes); ///< starts the next member, of size `bytes`
  void write(const void* data, std::size_t bytes);
  void commit(); ///< completes the archive; without it no file remains

 private:
  void endMember();

  OutputFile _file;
  std::vector<ZipMember> _members;
  std::uint64_t _missing = 0; ///< bytes of the last member still to come
};

/// The head of a .npy file, version 1.0, a multiple of 64 bytes long
/// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). `type` is NumPy's, e.g. "<f4";
/// no extents: a scalar.
std::string npyHeader(const std::string& type, const std::vector<std::int64_t>& extents);

/// Writes arrays like `numpy.savez`: an uncompressed archive of .npy files, read by `numpy.load`. Values are
/// stored as in memory, little-endian.
class NpzWriter {
 public:
  explicit NpzWriter(const std::string& path) : _zip(path) {}

  /// Starts the next array; its values follow through `write` in any number of chunks.
  void begin(const std::string& name, const std::string& type, const std::vector<std::int64_t>& extents,
             std::uint64_t bytes);
  void write(const void* data, std::size_t bytes) { _zip.write(data, bytes); }

  void add(const std::string& name, const std::vector<std::int64_t>& extents,
           const std::vector<float>& values);
  void add(const std::string& name, const std::vector<std::int64_t>& values);
  void add(const std::string& name, const std::string& text); ///< a scalar of bytes
  void add(const std::string& name, const std::vector<std::string>& texts);

  void commit() { _zip.commit(); } ///< without it no file remains

 private:
  ZipWriter _zip;
};

/// Was a .npz file written here, with this array as its first one? Others write other headers: NumPy, for
/// one, makes room for 64-bit sizes in each. Throws UserError if the file cannot be read.
bool isOwnNpz(const std::string& path, const std::string& first_array);

inline constexpr const char* first_array_of_network = "input/shift";
inline constexpr const char* first_array_of_predictions = "features";

/// Writes the network as .npz: every tensor under its name, in float even if the build computes in double;
/// `input/shift`, `input/scale`; `class_labels`, if there are any; and as bytes `deck`, `parameters_hash` and
/// `operations`, with one entry per operation, such as "dense layer0.dense", "leaky-relu 0.01", "reshape
/// 1,28,28", "max-pool kernel_shape=2,2
/// ..." or "reencode cut0.reencode". Throws UserError if the file cannot be written.
void writeNpz(const std::string& path, const JoinedNetwork& network);

} // namespace partita
