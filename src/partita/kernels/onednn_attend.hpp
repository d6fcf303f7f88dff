#pragma once

#include "partita/kernels/attend.hpp"

namespace partita::onednn {

/// Does oneDNN compute the products of attention with values stored like this, by instructions for 16-bit
/// numbers? Not in builds that test the kernels of devices, nor for sequences or heads so small that a call
/// costs more than it saves.
bool attends(const AttentionShape& shape, Precision stored);

/// As in kernels/attend.hpp, if `attends` says yes. The scores of a block of queries, of some heads of one
/// sample, are computed at once against all keys that the block may see. Scores and sums are float; weights,
/// and the gradients of scores, are rounded to 16 bits before they are multiplied. `scratch` has
/// `attentionScratch` values.
void attend(const ExecSpace& space, const AttentionValues& values, Real* scratch);
/// The gradients are stored in 16 bits, too; those of keys and values are added up as floats.
void attendBack(const ExecSpace& space, const AttentionValues& values, const AttentionGradients& gradients);

} // namespace partita::onednn
