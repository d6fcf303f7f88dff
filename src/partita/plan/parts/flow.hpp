#pragma once

#include "partita/plan/layer_plan.hpp"

namespace partita {

/// How the parts of a stage have an activation: each has all of it, or a range of its channels.
enum class Layout { whole, channels };

/// An activation on its way through the layers of a stage that parts share.
struct Flow {
  Layout layout = Layout::whole;
  Shape whole;                   ///< extents of the whole activation
  std::vector<AxisRange> ranges; ///< of each part, along the axis of the channels

  /// The axis of the channels: the first one, or the last one of a sequence.
  std::size_t axis() const { return isSequence(whole) ? 1 : 0; }
  /// What a part has of it.
  Shape own(int part) const;
  /// Columns of a part if a sample is [items, values].
  std::int64_t items() const { return isSequence(whole) ? whole[0] : 1; }
  std::int64_t widthOf(int part) const;
};

/// A whole activation.
Flow wholeFlow(const Shape& shape);
/// Divided by channel as evenly as possible. There must be as many channels as parts.
Flow channelFlow(const Shape& shape, int parts);
bool divisible(const Shape& shape, int parts); ///< are there so many channels?

} // namespace partita
