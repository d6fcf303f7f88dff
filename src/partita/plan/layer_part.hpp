#pragma once

#include "partita/plan/tensor_slice.hpp"

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace partita {

struct LayerPlan;

/// Consecutive indices of an axis.
struct AxisRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const AxisRange& other) const { return begin == other.begin && end == other.end; }
};

/// A block of the places of an image or a volume: ranges of depth, rows and columns. An image has depth 1.
struct Block {
  std::array<AxisRange, 3> axes;
  std::int64_t places() const { return axes[0].size() * axes[1].size() * axes[2].size(); }
  bool operator==(const Block& other) const { return axes == other.axes; }
};

/// The places that two blocks share; a block of no places if there are none.
Block sharedPlaces(const Block& a, const Block& b);

/// Range `part` of an axis that `parts` ranks divide as evenly as possible: the first ones are the larger
/// ones. Throws std::logic_error if there are fewer indices than parts.
AxisRange rangeOf(std::int64_t extent, int parts, int part);

/// Parts of a stage, in the order in which they pass values on: first, first + stride, ...
struct PartRing {
  int first = 0, stride = 1, count = 1;
};

/// Ranges of the first two axes of a tensor; empty: all.
struct TensorRanges {
  std::vector<AxisRange> outputs, inputs;
};

/// What one part of a stage has of a layer. The plan of such a layer describes what this part computes.
struct LayerPart {
  int parts = 1;
  std::shared_ptr<const LayerPlan> whole; ///< the layer as a rank without other parts has it
  /// What it has of the outputs and inputs of the layer, the first two axes of its tensors; empty: all.
  std::vector<AxisRange> outputs, inputs;
  std::map<std::string, TensorRanges> tensors; ///< what it has of some tensors instead, by name
  bool owns = true;            ///< does this part write its tensors? Another one has the same ones otherwise
  bool partial_output = false; ///< the outputs of all parts have to be added up
  bool partial_input_gradient = false; ///< and the gradients of their inputs
  /// Does it have some of the places of an activation? Then the gradients of its parameters are partial too.
  bool by_places = false;
  /// Does it have some of the positions of a sequence, which `outputs` counts? The layer adds up the
  /// gradients of its parameters, of which every part has all.
  bool by_positions = false;
  bool adds_bias =
      true;         ///< where sums of all parts become the output: does this part add the bias to its own?
  Block block = {}; ///< by places: those of its output
  /// Those of its output, counted from the first one, that it computes while a halo travels: their windows
  /// see only own places. No places: it computes all of them at once.
  Block interior = {};
};

/// The slices of the tensor `name` that a part has, in the order of its memory, where each is contiguous.
std::vector<TensorSlice> slicesOf(const LayerPart& part, const std::string& name,
                                  const std::vector<std::int64_t>& whole);

/// The classes whose logits each part of the last stage has.
struct ClassParts {
  std::vector<AxisRange> ranges;                ///< empty: every part has all of them
  int own = 0;                                  ///< number of this part
  static constexpr std::int64_t statistics = 4; ///< values per label that parts exchange for the loss

  bool divided() const { return !ranges.empty(); }
};

/// How parts exchange the activations of a layer in the forward pass, and their gradients in the backward
/// pass.
enum class PartStep {
  gather_slice,  ///< all ranges are gathered; the own range of the gradient remains
  slice_gather,  ///< the own range remains; all ranges of the gradient are gathered
  gather_reduce, ///< all ranges are gathered; the gradients are added up, and the own range remains
  reduce_gather, ///< the values are added up, and the own range remains; all gradients are gathered
  halo,          ///< places of other parts that windows need arrive; their gradients go back and are added
};

/// A step between two layers in which parts exchange values. A sample is a matrix [items, values], whose
/// columns are divided; if places are divided, an item is a channel, and its values are a block of places.
struct ExchangePlan {
  PartStep kind = PartStep::gather_slice;
  PartRing ring;
  std::int64_t items = 1;
  std::vector<std::int64_t> widths; ///< columns of each rank of the ring
  int place = 0;                    ///< of this rank in the ring

  /// If places are divided: those that each part has on the side where they are divided, and those on the
  /// other side: all of them, or in a halo those that the windows of each part need. Otherwise empty.
  std::vector<Block> owned = {}, needed = {};

  /// halo: the places that part `to` gets from part `from`.
  Block sent(int from, int to) const;
};

} // namespace partita
