#pragma once

#include "partita/kernels/attend.hpp"

#include <string>

namespace partita::cudnn {

/// "9.19.0", or empty if this build is without cuDNN's frontend.
std::string attentionVersion();

/// Has the library reproducible algorithms for both passes that read values and gradients of 16 bits where
/// they lie? Heads are then multiples of 8 values wide. Scratch for the backward pass is `attentionScratch`
/// and 2 x places x width values more, which gradients of 16 bits leave of the memory of those of `Real`.
bool attends(const AttentionValues& values);

/// As in kernels/attend.hpp, if `attends` says yes.
void attend(const ExecSpace& space, const AttentionValues& values, Real* scratch);
void attendBack(const ExecSpace& space, const AttentionValues& values, const AttentionGradients& gradients,
                Real* scratch);

/// Frees what was kept of attention, before the device ends.
void forgetAttention();

} // namespace partita::cudnn
