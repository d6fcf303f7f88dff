#include "partita/plan/layer_part.hpp"

#include <algorithm>
#include <stdexcept>

namespace partita {

IndexRange rangeOf(std::int64_t extent, int parts, int part) {
  if (extent < parts) throw std::logic_error("an axis with fewer indices than parts");
  const std::int64_t least = extent / parts, larger = extent % parts;
  const std::int64_t begin = part * least + std::min<std::int64_t>(part, larger);
  return {begin, begin + least + (part < larger ? 1 : 0)};
}

std::vector<TensorSlice> slicesOf(const LayerPart& part, const std::string& name,
                                  const std::vector<std::int64_t>& whole) {
  const TensorSlice all = wholeOf(whole);
  if (part.by_places || part.by_positions) return {all};
  const auto own = part.tensors.find(name);
  const TensorRanges ranges =
      own != part.tensors.end() ? own->second : TensorRanges{part.outputs, part.inputs};
  std::vector<TensorSlice> slices;
  for (const IndexRange& rows : ranges.outputs) slices.push_back(all.rows(rows.begin, rows.size()));
  if (slices.empty()) slices = {all};
  if (ranges.inputs.empty() || whole.size() < 2) return slices;
  if (ranges.inputs.size() > 1) throw std::logic_error("several ranges of inputs");
  for (TensorSlice& slice : slices) {
    slice.offset[1] = ranges.inputs.front().begin;
    slice.extents[1] = ranges.inputs.front().size();
  }
  return slices;
}

Block sharedPlaces(const Block& a, const Block& b) {
  Block both;
  for (std::size_t axis = 0; axis < both.axes.size(); ++axis) {
    const std::int64_t begin = std::max(a.axes[axis].begin, b.axes[axis].begin);
    both.axes[axis] = {begin, std::max(begin, std::min(a.axes[axis].end, b.axes[axis].end))};
  }
  return both;
}

Block ExchangePlan::sent(int from, int to) const {
  return sharedPlaces(owned[static_cast<std::size_t>(from)], needed[static_cast<std::size_t>(to)]);
}

} // namespace partita
