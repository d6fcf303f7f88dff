#pragma once

#include "partita/plan/layer_plan.hpp"

namespace partita {

/// The windows over an image or a volume. There are three axes, depth first; an image has depth 1. Arrays are
/// plain, because kernels on a device read them too.
struct WindowPlan {
  std::int64_t in[3], out[3]; ///< extents
  std::int64_t kernel[3], stride[3], dilation[3];
  std::int64_t before[3]; ///< padding before; the padding after is what the last window needs

  std::int64_t inPlaces() const { return in[0] * in[1] * in[2]; }
  std::int64_t outPlaces() const { return out[0] * out[1] * out[2]; }
  /// Images, without a depth.
  bool flat() const { return in[0] == 1 && kernel[0] == 1 && out[0] == 1 && before[0] == 0; }
  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  /// Places of an axis that windows see, with padding.
  std::int64_t seen(int a) const { return (out[a] - 1) * stride[a] + dilation[a] * (kernel[a] - 1) + 1; }
  /// Would the padding before an image, used after it as well, give the outputs that are wanted?
  bool evenlyPadded() const;
};

bool isImage(const Shape& shape);  ///< {channels, rows, columns}
bool isVolume(const Shape& shape); ///< {channels, depth, rows, columns}

/// {channels, places...} of the output.
Shape shapeOf(std::int64_t channels, const WindowPlan& windows, const Shape& in);

/// The windows of a convolution or a pooling layer on `plan.in`. Throws UserError if they do not fit.
WindowPlan convolutionWindows(const LayerPlan& plan);
WindowPlan poolingWindows(const LayerPlan& plan);
/// One window over all positions of `plan.in`.
WindowPlan wholeWindow(const LayerPlan& plan);

/// A convolution as matrix products: for some rows of the batch and each group, columns [places, depth] x
/// weights [depth, out], where a row of the columns is what one window sees.
struct ConvolutionPlan {
  explicit ConvolutionPlan(const LayerPlan& plan);

  WindowPlan windows;
  std::int64_t in_channels, out_channels, groups;

  std::int64_t depth() const { return in_channels / groups * windows.taps(); }
  bool pointwise() const; ///< columns are positions of the input: nothing has to be gathered
  /// Rows of the batch in one product; this bounds the scratch for any batch size.
  std::int64_t rowsAtOnce(std::int64_t rows) const;
  std::int64_t columnValues(std::int64_t rows) const; ///< scratch for the columns
  /// Scratch for the weights, or their gradient, in the order of the columns; 0: they have it.
  std::int64_t copiedWeights() const;

  bool depthwise() const; ///< each channel has a group, and windows of its own
  static constexpr std::int64_t depthwise_slices =
      16; ///< of lines, whose gradients are added up on their own

  /// Are vendors' libraries faster than columns on a host for this kind, even though weights, and sometimes
  /// values, must be copied into their formats?
  bool packable() const;
  /// Rows of the batch that they get at once, about the same number each time.
  std::int64_t packedRows(std::int64_t rows) const;
  /// The most rows at once for any batch of up to `rows` rows: 20 rows may be taken at once, and 21
  /// in two parts.
  std::int64_t mostPackedRows(std::int64_t rows) const;
  std::int64_t packedWeights() const; ///< the most values of the weights in such a format

  /// Are there so few outputs that Partita's own kernels, which read the windows where they lie,
  /// are faster on a host?
  bool narrow() const;
  /// Do the channels of inputs and of outputs fill whole vectors? If not, libraries leave part of them
  /// unused.
  bool fillsVectors() const;
  std::int64_t paddedValues() const; ///< of a row that is copied with its padding; 0: it has none
  std::int64_t narrowRows(std::int64_t rows) const; ///< at once, which fit into the cache of a core
  std::int64_t narrowWidth() const;                 ///< outputs in whole vectors
  std::int64_t gradientSlices() const; ///< of the places, whose gradients are added up on their own
  std::int64_t runLength() const;      ///< of neighbouring values that a window sees
  std::int64_t runWidth() const;       ///< of a run in whole vectors
  /// Are images so small, and runs of windows of several places so long, that it is faster if windows add to
  /// the gradient of the input where it lies?
  bool scatters() const;

  /// Are these neighbouring windows of 3x3 or 3x3x3 places, and enough channels and places that Winograd's
  /// algorithm (kernels/winograd.hpp) is faster on a host?
  bool winograd() const;
  std::int64_t winogradPoints() const;  ///< values per channel of a transformed tile
  std::int64_t winogradTiles() const;   ///< tiles of 2x2 or 2x2x2 outputs at once
  std::int64_t winogradWeights() const; ///< values of the transformed weights, or of their gradient
  std::int64_t winogradPlace() const;   ///< values of a place of zeros

  /// Rows of 16-bit values that are converted to `Real` at once for any of these ways, and the values of
  /// these: input, gradient of the input, and output or its gradient.
  std::int64_t rowsInReal(std::int64_t rows) const;
  std::int64_t valuesInReal(std::int64_t rows) const;

  /// Scratch for any of these ways.
  std::int64_t workValues(std::int64_t rows) const;
};

/// A block of the outputs of a convolution as a convolution of the block of inputs that its windows see.
struct ConvolutionBlock {
  ConvolutionBlock(const ConvolutionPlan& whole, const Block& outputs);

  ConvolutionPlan plan;                   ///< of the two blocks alone
  std::int64_t first_in, first_out;       ///< the first place of each in the whole
  std::int64_t whole_in[3], whole_out[3]; ///< extents
  std::int64_t before[3]; ///< padding before the first window if it sees the whole input; may be negative
};

/// Blocks that, together with `interior`, cover this many places.
std::vector<Block> aroundInterior(const Block& interior, const std::int64_t (&extents)[3]);

/// Values between the buffers of packed operands, which begin at multiples of 64 bytes.
constexpr std::int64_t packed_alignment = 16;

} // namespace partita
