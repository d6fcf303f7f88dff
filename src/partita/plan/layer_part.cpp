#include "partita/plan/layer_part.hpp"

#include <algorithm>
#include <stdexcept>

namespace partita {

AxisRange rangeOf(std::int64_t extent, int parts, int part) {
  if (extent < parts) throw std::logic_error("an axis with fewer indices than parts");
  const std::int64_t least = extent / parts, larger = extent % parts;
  const std::int64_t begin = part * least + std::min<std::int64_t>(part, larger);
  return {begin, begin + least + (part < larger ? 1 : 0)};
}

std::vector<TensorSlice> slicesOf(const LayerPart& part, const std::vector<std::int64_t>& whole) {
  const TensorSlice all = wholeOf(whole);
  std::vector<TensorSlice> slices;
  for (const AxisRange& rows : part.outputs) slices.push_back(all.rows(rows.begin, rows.size()));
  if (slices.empty() || part.by_places) slices = {all};
  if (part.inputs.empty() || whole.size() < 2) return slices;
  if (part.inputs.size() > 1) throw std::logic_error("several ranges of inputs");
  for (TensorSlice& slice : slices) {
    slice.offset[1] = part.inputs.front().begin;
    slice.extents[1] = part.inputs.front().size();
  }
  return slices;
}

AxisRange ExchangePlan::sent(int from, int to) const {
  const AxisRange &has = owned[static_cast<std::size_t>(from)], &wants = needed[static_cast<std::size_t>(to)];
  const std::int64_t begin = std::max(has.begin, wants.begin);
  return {begin, std::max(begin, std::min(has.end, wants.end))};
}

} // namespace partita
