#pragma once

#include "partita/io/joined_network.hpp"
#include "partita/io/zip.hpp"

namespace partita {

/// The head of a .npy file, version 1.0, a multiple of 64 bytes long
/// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). `type` is NumPy's, e.g. "<f4";
/// no extents: a scalar.
std::string npyHeader(const std::string& type, const std::vector<std::int64_t>& extents);

/// Writes arrays as `numpy.savez` does: an uncompressed archive of .npy files, read by `numpy.load`. Values
/// are stored as they lie in memory, little-endian.
class NpzWriter {
 public:
  explicit NpzWriter(const std::string& path) : _zip(path) {}

  /// The next array; its values follow through `write` in any number of pieces.
  void begin(const std::string& name, const std::string& type, const std::vector<std::int64_t>& extents,
             std::uint64_t bytes);
  void write(const void* data, std::size_t bytes) { _zip.write(data, bytes); }

  void add(const std::string& name, const std::vector<std::int64_t>& extents,
           const std::vector<float>& values);
  void add(const std::string& name, const std::vector<std::int32_t>& values);
  void add(const std::string& name, const std::string& text); ///< a scalar of bytes
  void add(const std::string& name, const std::vector<std::string>& texts);

  void commit() { _zip.commit(); } ///< without it no file is left

 private:
  ZipWriter _zip;
};

/// Writes the network as .npz: every tensor under its name, in float, also from a build that computes in
/// double; `input/shift`, `input/scale`; as bytes `deck`, `parameters_hash`, and `operations`, one entry for
/// each, such as "dense layer0.dense", "leaky-relu 0.01", "reshape 1,28,28", "max-pool kernel_shape=2,2 ..."
/// or "reencode cut0.reencode". Throws UserError where the file cannot be written.
void writeNpz(const std::string& path, const JoinedNetwork& network);

} // namespace partita
