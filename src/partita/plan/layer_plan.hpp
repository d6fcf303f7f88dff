#pragma once

#include "partita/config/run_config.hpp"
#include "partita/plan/shape.hpp"

#include <algorithm>

namespace partita {

/// The tensors of a flat buffer begin at multiples of so many values: 128 bytes even where a value has 16
/// bits, as libraries for matrix products and vector units want them. All buffers of a stage have the same
/// offsets. Zeros fill the gaps and stay zeros, so that whatever works on a whole buffer need not know of
/// them. No file has them.
constexpr std::int64_t tensor_granule = 64;

/// Values that a tensor of `size` takes in a flat buffer.
constexpr std::int64_t storedSize(std::int64_t size, std::int64_t granule = tensor_granule) {
  return (size + granule - 1) / granule * granule;
}

/// A parameter tensor of a layer, as checkpoints name it; row-major.
struct ParameterShape {
  std::string name; ///< "weight", "bias"
  std::vector<std::int64_t> extents;
  std::string axes; ///< what the extents count, slowest first: "outputs, inputs"
  std::int64_t size() const { return valuesOf(extents); }
};

class LayerRules;

/// Shape and cost of one layer of a network; all counts are for one sample. What depends on the type is in
/// LayerRules.
struct LayerPlan {
  LayerSpec spec;
  std::string place = "layer0"; ///< in the whole network, whatever the cuts: "layer3", "layer3.1" inside it
  std::string entry;            ///< of the deck, for messages: "network/layers: entry 2"
  std::int64_t index = 0;       ///< of the cuttable layer that it is or is part of
  std::int64_t number = 0;      ///< counts the layers that are no groups: random numbers come from it
  std::int64_t classes = 0;     ///< of the data; of tokens: the vocabulary
  bool shared = false;          ///< embedding: a dense layer behind has the same table
  Shape in, out;
  Initialisation initialisation = Initialisation::he;
  std::vector<LayerPlan> body, shortcut; ///< of a group

  std::int64_t inputs() const { return valuesOf(in); }
  std::int64_t outputs() const { return valuesOf(out); }
  std::string name() const { return place + "." + spec.type; } ///< "layer3.dense"
  bool group() const { return !body.empty(); }
  const LayerRules& rules() const; ///< of its type

  std::vector<ParameterShape> parameterShapes() const; ///< of this layer itself, in the order of the buffer
  std::int64_t parameters() const;                     ///< with those of the layers inside
  std::int64_t storedValues() const;                   ///< what these take in a flat buffer, gaps included
  /// State that training updates and no gradient reaches (running means), in the order of its buffer.
  std::vector<ParameterShape> statisticsShapes() const;
  std::int64_t statistics() const; ///< with those of the layers inside
  double forwardFlops() const; ///< multiply-adds of matrix products count 2; element-wise work is left out
  double weightFlops() const;  ///< gradient of the weights
  double inputFlops() const;   ///< gradient of the input
  std::int64_t savedValues() const;  ///< kept for the backward pass besides input and output
  std::int64_t widestInside() const; ///< of a group: the widest activation, its input and output included
  std::int64_t keptValues() const { return outputs() + savedValues(); }
  std::int64_t workValues(std::int64_t rows) const; ///< scratch during a pass over `rows` samples
  /// Parameters that are stored in 16 bits and in `Real` as well during a pass; as many gradients are.
  std::int64_t realCopies() const;
};

/// Of a matrix in 16 bits at most so many values are in `Real` at once: 4 MiB in float, some thousand columns
/// of a product, enough for full speed.
constexpr std::int64_t panel_values = std::int64_t{1} << 20;

/// Rows of a matrix [rows, columns] that are in `Real` at once: one at least.
inline std::int64_t panelRows(std::int64_t rows, std::int64_t columns) {
  return std::min(rows, std::max(std::int64_t{1}, panel_values / columns));
}

/// Positions of a sample that a layer treats alike: rows of its last extent.
inline std::int64_t positionsOf(const Shape& shape) {
  return valuesOf(shape) / shape.back();
}

bool needsArgument(Activation activation); ///< does its derivative need more than its value?

/// The layers that have parameters of their own, in the order of the flat buffer: a group's layers take its
/// place, those of its shortcut last.
std::vector<const LayerPlan*> leavesOf(const std::vector<LayerPlan>& layers);

std::int64_t countParameters(const std::vector<LayerPlan>& layers);

} // namespace partita
