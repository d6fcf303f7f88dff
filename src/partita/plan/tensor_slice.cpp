#include "partita/plan/tensor_slice.hpp"

#include "partita/plan/shape.hpp"

namespace partita {

std::int64_t TensorSlice::size() const {
  return valuesOf(extents);
}

TensorSlice TensorSlice::rows(std::int64_t first, std::int64_t count) const {
  TensorSlice some = *this;
  some.offset[0] += first;
  some.extents[0] = count;
  return some;
}

TensorSlice wholeOf(const std::vector<std::int64_t>& extents) {
  return {extents, std::vector<std::int64_t>(extents.size(), 0), extents};
}

std::vector<SliceRun> runsOf(const TensorSlice& slice) {
  std::int64_t run = 1; // ends at the last axis that is divided
  for (std::size_t axis = slice.whole.size(); axis-- > 0;) {
    run *= slice.extents[axis];
    if (slice.extents[axis] != slice.whole[axis]) break;
  }
  std::vector<SliceRun> runs;
  for (std::int64_t in_slice = 0; in_slice < slice.size(); in_slice += run) {
    std::int64_t rest = in_slice, in_whole = 0, stride = 1;
    for (std::size_t axis = slice.whole.size(); axis-- > 0;) {
      in_whole += (slice.offset[axis] + rest % slice.extents[axis]) * stride;
      rest /= slice.extents[axis];
      stride *= slice.whole[axis];
    }
    runs.push_back({in_whole, in_slice, run});
  }
  return runs;
}

} // namespace partita
