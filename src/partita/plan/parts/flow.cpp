#include "partita/plan/parts/flow.hpp"

namespace partita {

Shape Flow::own(int part) const {
  Shape shape = whole;
  if (layout != Layout::whole) shape[axis()] = ranges[static_cast<std::size_t>(part)].size();
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

Flow placeFlow(const Shape& shape, int parts) {
  Flow flow{Layout::places, shape, {}};
  for (int part = 0; part < parts; ++part) flow.ranges.push_back(rangeOf(shape[1], parts, part));
  return flow;
}

bool placesDivisible(const Shape& shape, int parts) {
  return shape.size() > 2 && shape[1] >= parts;
}

} // namespace partita
