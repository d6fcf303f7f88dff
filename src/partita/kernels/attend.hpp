#pragma once

#include "partita/core/typed_matrix.hpp"
#include "partita/plan/window_plan.hpp"

#include <string>

namespace partita {

/// Sizes of one call. Queries, keys and values lie side by side in rows of 3 x width, the outputs of the
/// heads in rows of width; the part of each head is contiguous.
struct AttentionShape {
  std::int64_t samples, positions, heads, width;
  KOKKOS_INLINE_FUNCTION std::int64_t headWidth() const { return width / heads; }
  std::int64_t places() const { return samples * positions; }
  std::int64_t rows() const { return samples * heads * positions; } ///< of scores
};

/// What the forward pass of causal attention leaves for the backward pass. Both matrices have one precision.
struct AttentionValues {
  AttentionShape shape;
  TypedMatrix qkv, out; ///< [places, 3 width], [places, width]
  Real* log_sums;       ///< the logarithm of the sum per row of scores, [samples, heads, positions]
};

/// Scratch for the forward pass, in values of `Real`: copies of 16-bit values, and one number per
/// row of scores.
inline std::int64_t attentionScratch(const AttentionShape& shape, Precision stored) {
  return shape.rows() + (stored == Precision::single ? 0 : 4 * shape.places() * shape.width);
}

/// The same for the backward pass, with room for the gradients.
inline std::int64_t attentionBackScratch(const AttentionShape& shape, Precision stored) {
  return attentionScratch(shape, stored) + 4 * shape.places() * shape.width +
         (stored == Precision::single ? 0 : packed_alignment);
}

/// The gradients of queries, keys, values and outputs, [places, 3 width] and [places, width], and
/// the rest of the scratch.
struct AttentionGradients {
  TypedMatrix qkv, out;
  Real* scratch;
};

/// Places them in memory of `attentionBackScratch` values: in 16 bits where a library computes with such
/// numbers as they are stored, otherwise as `Real`.
AttentionGradients gradientsIn(Real* memory, const AttentionValues& values);

/// Per head of each sample o = softmax(q k^T / sqrt(head width)) v over the positions up to the query's own
/// (Vaswani et al., arXiv 1706.03762), and the logarithm of the sum of each row. Scores are computed tile by
/// tile with a running maximum and sum, as in FlashAttention-2 (Dao, arXiv 2307.08691): no matrix of
/// positions x positions is ever stored. Heads are at most `widest_head` wide.
///
/// Values of 16 bits go to cuDNN, on NVIDIA devices, if this build has its frontend and the library an
/// algorithm for the shape. On hosts that multiply them directly, oneDNN computes the products. Otherwise
/// they are converted in scratch.
void attend(const ExecSpace& space, const AttentionValues& values, Real* scratch);

/// The gradient of queries, keys and values from that of the outputs; the scores are computed again.
void attendBack(const ExecSpace& space, const AttentionValues& values, const AttentionGradients& gradients);

/// What computes with values of 16 bits: "cuDNN 9.19.0", "oneDNN 2.6.3", or "Kokkos kernels in float".
std::string attentionPath();

} // namespace partita
