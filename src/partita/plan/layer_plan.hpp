#pragma once

#include "partita/config/run_config.hpp"
#include "partita/plan/layer_part.hpp"
#include "partita/plan/scratch_budget.hpp"
#include "partita/plan/shape.hpp"

#include <algorithm>

namespace partita {

/// The tensors of a flat buffer begin at multiples of this many values: 128 bytes even for 16-bit values, as
/// BLAS libraries and vector units prefer. All buffers of a stage have the same offsets. The gaps are filled
/// with zeros and stay zero, so that code working on a whole buffer can ignore them. Files do not contain the
/// gaps.
constexpr std::int64_t tensor_granule = 64;

/// Values that a tensor of `size` values takes in a flat buffer.
constexpr std::int64_t storedSize(std::int64_t size, std::int64_t granule = tensor_granule) {
  return (size + granule - 1) / granule * granule;
}

/// A parameter tensor of a layer, with the name it has in checkpoints; row-major.
struct ParameterShape {
  std::string name; ///< "weight", "bias"
  std::vector<std::int64_t> extents;
  std::string axes; ///< what the extents count, slowest first: "outputs, inputs"
  std::int64_t size() const { return valuesOf(extents); }
};

/// Memory, in `Real`, for this many values of a sample that are stored in some precision.
constexpr std::int64_t roomOf(std::int64_t values, Precision precision) {
  return precision == Precision::single ? values : (values + 1) / 2;
}

/// Room per sample for one of several tensors that follow one another in memory. Each begins at a multiple of
/// 16 bytes for any number of samples, so kernels read all of them in the same packs, and add up in the same
/// order.
constexpr std::int64_t alignedRoom(std::int64_t room) {
  return (room + 3) / 4 * 4;
}

/// The extents of the tensor of that name, which must be one of `shapes`.
const std::vector<std::int64_t>& extentsOf(const std::vector<ParameterShape>& shapes,
                                           const std::string& name);

/// What a pass costs per sample. A cut balances both: products are limited by the processor, and everything
/// else (columns of convolutions, norms, activations, sums) by memory.
struct Effort {
  double flops = 0.0; ///< of matrix products; a multiply-add counts 2
  double moved = 0.0; ///< values that other kernels read or write

  /// The sum of both in FLOPs: a core computes this many while other kernels read or write one value.
  /// docs/sil-measurements.md, "Work and speed-up", says how this was measured. Processors differ, but none
  /// needs 0.
  static constexpr double flops_per_value = 18.0;
  double total() const { return flops + flops_per_value * moved; }

  Effort& operator+=(const Effort& other) {
    flops += other.flops;
    moved += other.moved;
    return *this;
  }
};
inline Effort operator+(Effort a, const Effort& b) {
  return a += b;
}
inline Effort operator-(const Effort& a, const Effort& b) {
  return {a.flops - b.flops, a.moved - b.moved};
}

/// Values per sample that a layer's kernels, other than products, read or write.
struct Moves {
  double forward = 0.0;
  double parameters = 0.0; ///< for the gradients of the parameters
  double input = 0.0;      ///< for the gradient of the input
};

class LayerRules;

/// Shape and cost of one layer of a network; all counts are for one sample. LayerRules has whatever depends
/// on the type.
struct LayerPlan {
  LayerSpec spec;
  std::string place = "layer0"; ///< in the whole network, whatever the cuts: "layer3", "layer3.1" inside it
  std::string entry;            ///< of the deck, for messages: "network/layers[1]"
  std::int64_t index = 0;       ///< of the cuttable layer that it is, or is part of
  std::int64_t number = 0;      ///< counts the layers that are not groups; selects their random numbers
  std::int64_t classes = 0;     ///< of the data; for tokens the size of the vocabulary
  bool shared = false;          ///< embedding: a later dense layer uses the same table
  /// Its input, its output and their gradients are stored in this precision, which is the same in all stages
  /// of a network, so that cuts change no bit.
  Precision activations = Precision::single;
  bool real_input = false, real_output = false; ///< features, logits: `Real` nevertheless
  Shape in, out;
  Initialisation initialisation = Initialisation::he;
  std::vector<LayerPlan> body, shortcut; ///< of a group
  std::shared_ptr<const LayerPart> part; ///< of a stage that ranks share; null: this rank has the whole layer
  std::shared_ptr<const ExchangePlan> exchange; ///< null: a layer of the network

  std::int64_t inputs() const { return valuesOf(in); }
  std::int64_t outputs() const { return valuesOf(out); }
  Precision inputPrecision() const { return real_input ? Precision::single : activations; }
  Precision outputPrecision() const { return real_output ? Precision::single : activations; }
  std::int64_t inputRoom() const { return roomOf(inputs(), inputPrecision()); } ///< in `Real`
  std::int64_t outputRoom() const { return roomOf(outputs(), outputPrecision()); }
  std::string name() const { return place + "." + spec.type; } ///< "layer3.dense"
  const LayerPlan& whole() const { return part ? *part->whole : *this; }
  bool group() const { return !body.empty(); }
  const LayerRules& rules() const; ///< of its type

  std::vector<ParameterShape> parameterShapes() const; ///< of this layer alone, in the order of the buffer
  /// The portion that this rank has of a tensor of this layer, whose whole extents are given.
  std::vector<TensorSlice> slicesOf(const std::string& name,
                                    const std::vector<std::int64_t>& whole_extents) const;
  /// The rows that this rank has of a tensor with this many rows, if they are consecutive.
  IndexRange ownRows(const std::string& name, std::int64_t rows) const;
  std::int64_t parameters() const;   ///< with those of the layers inside
  std::int64_t storedValues() const; ///< values of these in a flat buffer, gaps included
  /// State that training updates and no gradient reaches (running means), in the order of its buffer.
  std::vector<ParameterShape> statisticsShapes() const;
  std::int64_t statistics() const; ///< with those of the layers inside
  double forwardFlops() const;    ///< a multiply-add of a matrix product counts 2; element-wise work counts 0
  double weightFlops() const;     ///< gradient of the weights
  double inputFlops() const;      ///< gradient of the input
  double recomputedFlops() const; ///< the part of these two that repeats the forward pass
  Effort forwardEffort() const;
  Effort weightEffort() const;
  Effort inputEffort() const;
  std::int64_t savedValues() const; ///< kept for the backward pass besides input and output
  /// Of a group: the most room that an activation takes, input and output included; see `alignedRoom`.
  std::int64_t widestInside() const;
  std::int64_t keptValues() const { return outputRoom() + savedValues(); } ///< in `Real`
  std::int64_t workValues(std::int64_t rows) const; ///< scratch during a pass over `rows` samples
  /// Does it need copies of its input in the order of the shape? See `LayerRules::inShapeOrder`.
  bool reorders() const;
  /// Scratch for adding up this many values over all parts: room for what a rank receives at a time.
  std::int64_t sumValues(std::int64_t values) const { return values / part->parts + 1; }
  /// Scratch, in `Real`, of a layer with 16-bit parameters: room for those that it converts, or for the other
  /// operand of a product, rounded to 16 bits. Gradients need the same amount again.
  std::int64_t halfScratch(std::int64_t rows) const;
};

/// The most values of a 16-bit matrix that are converted to `Real` at once: on a host 4 MiB in float, about a
/// thousand columns of a product, enough for full speed.
constexpr std::int64_t panel_values = scratchBudget(1 << 20, 1 << 24);

/// Rows of a matrix [rows, columns] that are converted to `Real` at once: at least one.
inline std::int64_t panelRows(std::int64_t rows, std::int64_t columns) {
  return std::min(rows, std::max(std::int64_t{1}, panel_values / columns));
}

/// Columns of an operand [rows, columns] that are rounded to 16 bits at once: all of them, or as many as take
/// no more memory than a panel, but at least 64.
inline std::int64_t halfColumns(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t step = 64;
  return std::min(
      columns, std::max(std::int64_t{1}, 2 * panel_values / (std::max(rows, std::int64_t{1}) * step)) * step);
}

/// Number of `Real` values that hold as many columns, with padding, or at least one whole row.
inline std::int64_t halfOperand(std::int64_t rows, std::int64_t columns, std::int64_t padding = row_padding) {
  const std::int64_t width = paddedWidth(columns, padding);
  return (std::max(rows * halfColumns(rows, width), std::min(rows, std::int64_t{1}) * width) + 1) / 2;
}

/// Rows of the operand [rows, columns] and the result [rows, units] of a product that are converted to `Real`
/// at once: as many as fit into the memory of a panel.
inline std::int64_t rowsInReal(std::int64_t rows, std::int64_t columns, std::int64_t units) {
  constexpr std::int64_t least = 1 << 16;
  const std::int64_t room = std::max(least, panelRows(units, columns) * columns);
  return std::min(rows, std::max(std::int64_t{1}, room / (columns + units)));
}

/// Positions of a sample that a layer treats alike: rows of its last extent.
inline std::int64_t positionsOf(const Shape& shape) {
  return valuesOf(shape) / shape.back();
}

bool needsArgument(Activation activation); ///< does its derivative need more than its value?

/// The layers that have parameters of their own, in the order of the flat buffer: a group is replaced by its
/// layers, those of its shortcut last.
std::vector<const LayerPlan*> leavesOf(const std::vector<LayerPlan>& layers);

std::int64_t countParameters(const std::vector<LayerPlan>& layers);

/// Sets the precision of activations of these layers, and of those inside them.
void setActivations(std::vector<LayerPlan>& layers, Precision precision);
/// Do these layers read an input of 16 bits? Numbers of tokens are always `Real`.
bool readHalf(const std::vector<LayerPlan>& layers);

} // namespace partita
