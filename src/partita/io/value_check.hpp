#pragma once

#include "partita/core/types.hpp"
#include "partita/plan/tensor_slice.hpp"

#include <cstdint>
#include <vector>

namespace partita {

/// The CRC-32 of zlib over a byte string distributed over several ranks: the XOR of the values of all parts
/// is the checksum of the whole. A polynomial remainder over GF(2) is linear: the remainder of the whole is
/// the sum of the remainders of its parts, each with zeros in place of the other parts, and of the initial
/// register, which is added by the part with the first byte.
class PartChecksum {
 public:
  explicit PartChecksum(std::int64_t bytes) : _bytes(bytes) {} ///< of the whole

  /// Adds the next run of bytes of this part, which begins at `place` of the whole. Runs come in ascending
  /// order.
  void add(std::int64_t place, const void* data, std::int64_t count);
  std::uint32_t value() const;

 private:
  std::int64_t _bytes, _done = 0;
  std::uint32_t _register = 0;
  bool _first = false;   ///< does this part begin with the whole?
  std::int64_t _gap = 0; ///< bytes of the last gap; most gaps are equal
  std::uint32_t _gap_factor = 0;
};

/// Checks values while they are being written: computes the attribute `crc32`, and whether all values are
/// finite, as a file requires.
class ValueCheck {
 public:
  explicit ValueCheck(const TensorSlice& slice);

  void add(const Real* values, std::int64_t count);            ///< the next values of the slice
  std::uint32_t checksum() const { return _checksum.value(); } ///< see PartChecksum
  bool finite() const { return _finite; }

 private:
  std::vector<SliceRun> _runs;
  std::size_t _run = 0;   ///< that contains the next value
  std::int64_t _next = 0; ///< its place in the slice
  PartChecksum _checksum;
  bool _finite = true;
};

} // namespace partita
