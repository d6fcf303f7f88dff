#pragma once

#include "partita/plan/layer_plan.hpp"

namespace partita {

/// How an activation is divided among the parts of a stage: each has all of it, a range of its channels, a
/// block of its places, or a range of the positions of a sequence.
enum class Layout { whole, channels, places, positions };

/// How many ranges each axis of places is divided into: depth, rows, columns. The last one changes fastest
/// with the number of the part.
using PlaceGrid = std::array<int, 3>;

/// An activation on its way through the layers of a stage that parts share.
struct Flow {
  Layout layout = Layout::whole;
  Shape whole;                    ///< extents of the whole activation
  std::vector<IndexRange> ranges; ///< channels, positions: those of each part
  std::vector<Block> blocks = {}; ///< places: those of each part

  /// The first axis that is divided. Channels are the first one, or the last one of a sequence.
  std::size_t axis() const {
    if (layout == Layout::positions) return 0;
    return layout == Layout::places || isSequence(whole) ? 1 : 0;
  }
  /// What a part has of it.
  Shape own(int part) const;
  /// A sample is a matrix [items, values]; a part has `widthOf` columns of it. Channels are the columns, as
  /// they are in memory.
  std::int64_t items() const { return layout == Layout::channels ? valuesOf(whole) / whole[axis()] : 1; }
  std::int64_t widthOf(int part) const;
};

/// A whole activation.
Flow wholeFlow(const Shape& shape);
/// Divided by channel as evenly as possible. There must be as many channels as parts.
Flow channelFlow(const Shape& shape, int parts);
bool divisible(const Shape& shape, int parts); ///< are there enough channels?
/// The same for the places of an image or a volume, whose axes have at least as many places as ranges.
Flow placeFlow(const Shape& shape, const PlaceGrid& grid);
bool placesDivisible(const Shape& shape, const PlaceGrid& grid);
/// The same for the positions of a sequence.
Flow positionFlow(const Shape& shape, int parts);
bool positionsDivisible(const Shape& shape, int parts);

/// All places of an image or a volume.
Block allPlaces(const Shape& shape);
/// The axis of a Block for axis `axis` of a sample: 1 and 2 for the rows and columns of an image.
inline std::size_t placeAxis(const Shape& shape, std::size_t axis) {
  return axis + 3 - shape.size();
}

} // namespace partita
