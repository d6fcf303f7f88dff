#pragma once

#include <cstdint>
#include <vector>

namespace partita {

/// A block of a tensor; both are row-major.
struct TensorSlice {
  std::vector<std::int64_t> whole;           ///< extents of the tensor
  std::vector<std::int64_t> offset, extents; ///< of the block, by axis

  std::int64_t size() const;
  /// Some of its rows along the first axis, counted from the first row of the slice.
  TensorSlice rows(std::int64_t first, std::int64_t count) const;
  bool all() const { return extents == whole; } ///< is it the whole tensor?
};

TensorSlice wholeOf(const std::vector<std::int64_t>& extents);

/// Values that are contiguous both in a tensor and in a slice of it.
struct SliceRun {
  std::int64_t in_whole, in_slice, count;
};

/// The longest such runs, in the order of both the tensor and the slice.
std::vector<SliceRun> runsOf(const TensorSlice& slice);

} // namespace partita
