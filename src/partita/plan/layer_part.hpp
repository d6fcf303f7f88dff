#pragma once

#include "partita/plan/share.hpp"
#include "partita/plan/tensor_slice.hpp"

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace partita {

struct LayerPlan;

/// A spatial block of an image or a volume: ranges of depth, rows and columns. An image has depth 1.
struct Block {
  std::array<IndexRange, 3> axes;
  std::int64_t places() const { return axes[0].size() * axes[1].size() * axes[2].size(); }
  bool operator==(const Block& other) const { return axes == other.axes; }
};

/// The intersection of two blocks, which may be empty.
Block sharedPlaces(const Block& a, const Block& b);

/// Range `part` of an axis that `parts` ranks divide as evenly as possible: the first ranges are larger.
/// Throws std::logic_error if there are fewer indices than parts.
IndexRange rangeOf(std::int64_t extent, int parts, int part);

/// Parts of a stage, in the order in which they pass values on: first, first + stride, ...
struct PartRing {
  int first = 0, stride = 1, count = 1;
};

/// Ranges of the first two axes of a tensor; empty: all.
struct TensorRanges {
  std::vector<IndexRange> outputs, inputs;
};

/// The portion of a layer that one part of a stage has. The plan of such a layer describes what this part
/// computes.
struct LayerPart {
  int parts = 1;
  std::shared_ptr<const LayerPlan> whole; ///< the undivided layer
  /// Its ranges of the outputs and inputs of the layer, the first two axes of the tensors; empty: all.
  std::vector<IndexRange> outputs, inputs;
  std::map<std::string, TensorRanges> tensors; ///< different ranges for some tensors, by name
  bool owns = true;            ///< does this part write its tensors? Otherwise another part has the same ones
  bool partial_output = false; ///< the outputs of all parts must be added up
  bool partial_input_gradient = false; ///< and the gradients of their inputs
  /// Does it have only a spatial block of an activation? Then its parameter gradients are partial too.
  bool by_places = false;
  /// Does it have only some positions of a sequence, given by `outputs`? Every part then has all parameters
  /// of the layer, which adds up their gradients over the parts.
  bool by_positions = false;
  bool adds_bias = true; ///< if the output is a sum over all parts: does this part add the bias?
  Block block = {};      ///< if divided in space: the block of its output
  /// The places of its output, counted from the first one, that it computes while a halo travels, because
  /// their windows see only its own places. Empty: it computes all of them at once.
  Block interior = {};
};

/// The slices of the tensor `name` that a part has, in memory order; each is contiguous there.
std::vector<TensorSlice> slicesOf(const LayerPart& part, const std::string& name,
                                  const std::vector<std::int64_t>& whole);

/// The classes whose logits each part of the last stage has.
struct ClassParts {
  std::vector<IndexRange> ranges;               ///< empty: every part has all of them
  int own = 0;                                  ///< number of this part
  static constexpr std::int64_t statistics = 4; ///< values per label that parts exchange for the loss

  bool divided() const { return !ranges.empty(); }
};

/// How parts exchange the activations of a layer in the forward pass, and their gradients in the backward
/// pass.
enum class PartStep {
  gather_slice,  ///< all ranges are gathered; of the gradient, each part keeps its own range
  slice_gather,  ///< each part keeps its own range; all ranges of the gradient are gathered
  gather_reduce, ///< all ranges are gathered; the gradients are added up, and each part keeps its own range
  reduce_gather, ///< the values are added up, and each part keeps its own range; all gradients are gathered
  halo, ///< each part gets the values of other parts that its windows need; their gradients go back and are
        ///< added
};

/// A step between two layers in which parts exchange values. A sample is a matrix [items, values], whose
/// columns are divided; if it is divided in space, it is one item, whose values are a spatial block with
/// `channels` values at each place.
struct ExchangePlan {
  PartStep kind = PartStep::gather_slice;
  PartRing ring;
  std::int64_t items = 1;
  std::vector<std::int64_t> widths; ///< columns of each rank of the ring
  int place = 0;                    ///< of this rank in the ring

  /// If samples are divided in space: the block of each part on the divided side, and its block on the other
  /// side, which is everything, or for a halo what the windows of each part need. Otherwise empty.
  std::vector<Block> owned = {}, needed = {};
  std::int64_t channels = 1;

  /// halo: the block that part `to` gets from part `from`, and its values per sample.
  Block sent(int from, int to) const;
  std::int64_t valuesSent(int from, int to) const { return channels * sent(from, to).places(); }
};

} // namespace partita
