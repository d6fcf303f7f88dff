#pragma once

#include "partita/plan/layer_plan.hpp"

namespace partita {

/// How the parts of a stage have an activation: each has all of it, a range of its channels, or a range of
/// the places along its first axis of places.
enum class Layout { whole, channels, places };

/// An activation on its way through the layers of a stage that parts share.
struct Flow {
  Layout layout = Layout::whole;
  Shape whole;                   ///< extents of the whole activation
  std::vector<AxisRange> ranges; ///< of each part, along the axis that is divided

  /// The axis that is divided. Channels are the first one, or the last one of a sequence.
  std::size_t axis() const { return layout == Layout::places || isSequence(whole) ? 1 : 0; }
  /// What a part has of it.
  Shape own(int part) const;
  /// A sample is a matrix [items, values], of whose columns a part has so many.
  std::int64_t items() const { return axis() == 1 ? whole[0] : 1; }
  std::int64_t widthOf(int part) const;
};

/// A whole activation.
Flow wholeFlow(const Shape& shape);
/// Divided by channel as evenly as possible. There must be as many channels as parts.
Flow channelFlow(const Shape& shape, int parts);
bool divisible(const Shape& shape, int parts); ///< are there so many channels?
/// The same for the places of an image or a volume, along depth or rows.
Flow placeFlow(const Shape& shape, int parts);
bool placesDivisible(const Shape& shape, int parts);

} // namespace partita
