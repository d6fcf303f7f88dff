#include "partita/plan/parts/flow.hpp"

#include "partita/plan/window_plan.hpp"

namespace partita {

Shape Flow::own(int part) const {
  Shape shape = whole;
  const auto index = static_cast<std::size_t>(part);
  if (!ranges.empty()) shape[axis()] = ranges[index].size();
  for (std::size_t axis = 1; layout == Layout::places && axis < shape.size(); ++axis)
    shape[axis] = blocks[index].axes[placeAxis(whole, axis)].size();
  return shape;
}

std::int64_t Flow::widthOf(int part) const {
  return valuesOf(own(part)) / items();
}

Flow wholeFlow(const Shape& shape) {
  return {Layout::whole, shape, {}};
}

Flow channelFlow(const Shape& shape, int parts) {
  Flow flow{Layout::channels, shape, {}};
  for (int part = 0; part < parts; ++part) flow.ranges.push_back(rangeOf(shape[flow.axis()], parts, part));
  return flow;
}

bool divisible(const Shape& shape, int parts) {
  return shape[isSequence(shape) ? 1 : 0] >= parts;
}

Block allPlaces(const Shape& shape) {
  Block all{{{{0, 1}, {0, 1}, {0, 1}}}};
  for (std::size_t axis = 1; axis < shape.size(); ++axis) all.axes[placeAxis(shape, axis)].end = shape[axis];
  return all;
}

Flow placeFlow(const Shape& shape, const PlaceGrid& grid) {
  Flow flow{Layout::places, shape, {}};
  const Block all = allPlaces(shape);
  const auto range = [&](std::size_t axis, int index) {
    return rangeOf(all.axes[axis].end, grid[axis], index);
  };
  flow.blocks.reserve(static_cast<std::size_t>(grid[0]) * static_cast<std::size_t>(grid[1]) *
                      static_cast<std::size_t>(grid[2]));
  for (int z = 0; z < grid[0]; ++z)
    for (int y = 0; y < grid[1]; ++y)
      for (int x = 0; x < grid[2]; ++x) flow.blocks.push_back({{range(0, z), range(1, y), range(2, x)}});
  return flow;
}

bool placesDivisible(const Shape& shape, const PlaceGrid& grid) {
  if (!isImage(shape) && !isVolume(shape)) return false;
  const Block all = allPlaces(shape);
  for (std::size_t axis = 0; axis < grid.size(); ++axis)
    if (all.axes[axis].end < grid[axis]) return false;
  return true;
}

Flow positionFlow(const Shape& shape, int parts) {
  Flow flow{Layout::positions, shape, {}};
  for (int part = 0; part < parts; ++part) flow.ranges.push_back(rangeOf(shape[0], parts, part));
  return flow;
}

bool positionsDivisible(const Shape& shape, int parts) {
  return isSequence(shape) && shape[0] >= parts;
}

} // namespace partita
