#pragma once

#include <cstdint>

namespace partita {

/// The CRC-32 of zlib over a string of bytes that several ranks have parts of: the values of all parts,
/// XORed, are the checksum of the whole. A remainder of polynomials over GF(2) is linear: that of the whole
/// is the sum of those of its parts, each with zeros in place of the others, and of what the register begins
/// with, which goes with the first byte.
class PartChecksum {
 public:
  explicit PartChecksum(std::int64_t bytes) : _bytes(bytes) {} ///< of the whole

  /// The next run of bytes of this part, which begins at `place` of the whole, after all before.
  void add(std::int64_t place, const void* data, std::int64_t count);
  std::uint32_t value() const;

 private:
  std::int64_t _bytes, _done = 0;
  std::uint32_t _register = 0;
  bool _first = false;   ///< does this part begin with the whole?
  std::int64_t _gap = 0; ///< bytes of the last gap; most are alike
  std::uint32_t _gap_factor = 0;
};

} // namespace partita
