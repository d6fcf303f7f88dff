#pragma once

#include "partita/plan/tensor_slice.hpp"

#include <memory>
#include <string>
#include <vector>

namespace partita {

struct LayerPlan;

/// Consecutive indices of an axis.
struct AxisRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// Range `part` of an axis that `parts` ranks divide as evenly as possible: the first ones are the larger
/// ones. Throws std::logic_error if there are fewer indices than parts.
AxisRange rangeOf(std::int64_t extent, int parts, int part);

/// Parts of a stage, in the order in which they pass values on: first, first + stride, ...
struct PartRing {
  int first = 0, stride = 1, count = 1;
};

/// What one part of a stage has of a layer. The plan of such a layer describes what this part computes.
struct LayerPart {
  int parts = 1;
  std::shared_ptr<const LayerPlan> whole; ///< the layer as a rank without other parts has it
  /// What it has of the outputs and inputs of the layer, the first two axes of its tensors; empty: all.
  std::vector<AxisRange> outputs, inputs;
  bool owns = true;            ///< does this part write its tensors? Another one has the same ones otherwise
  bool partial_output = false; ///< the outputs of all parts have to be added up
  bool partial_input_gradient = false; ///< and the gradients of their inputs
  /// Does it have some of the places of an activation? Then the gradients of its parameters are partial too,
  /// and `outputs` counts places of the first axis.
  bool by_places = false;
};

/// The slices of a tensor that a part has, in the order of its memory, where each is contiguous.
std::vector<TensorSlice> slicesOf(const LayerPart& part, const std::vector<std::int64_t>& whole);

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
/// columns are divided.
struct ExchangePlan {
  PartStep kind = PartStep::gather_slice;
  PartRing ring;
  std::int64_t items = 1;
  std::vector<std::int64_t> widths; ///< columns of each rank of the ring
  int place = 0;                    ///< of this rank in the ring

  /// halo: the places along the first axis that each part has, and those that its windows need, of
  /// `place_values` values each.
  std::vector<AxisRange> owned = {}, needed = {};
  std::int64_t place_values = 1;

  /// halo: the places that part `to` gets from part `from`; empty if begin == end.
  AxisRange sent(int from, int to) const;
};

} // namespace partita
