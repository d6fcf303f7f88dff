#pragma once

#include <cstdint>

namespace partita {

/// Consecutive samples, values or indices of an axis: [begin, end).
struct IndexRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const IndexRange& other) const { return begin == other.begin && end == other.end; }
};

/// Share `index` of samples or values: that of a replica in a batch, of a microbatch in the share of
/// its replica, of a rank in a sum. Shares differ by one at most.
inline IndexRange shareOf(std::int64_t count, std::int64_t index, std::int64_t shares) {
  return {count * index / shares, count * (index + 1) / shares};
}

/// The chunk `step` places before that of the rank at `place`. The ranks of a ring pass chunks on to the next
/// rank, so each of them sends its chunks in this order.
inline int ringChunk(int place, int step, int count) {
  const int chunk = (place - step) % count;
  return chunk < 0 ? chunk + count : chunk;
}

/// The size of the largest share.
inline std::int64_t largestShare(std::int64_t count, std::int64_t shares) {
  return (count + shares - 1) / shares;
}

} // namespace partita
