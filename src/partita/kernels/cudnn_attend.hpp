#pragma once

#include "partita/kernels/attend.hpp"

#include <string>

namespace partita::cudnn {

/// "9.19.0", or empty if this build is without cuDNN's frontend.
std::string attentionVersion();

/// Does the library have a reproducible algorithm for a pass that reads and writes 16-bit values where they
/// lie? Heads are then multiples of 8 values wide. The scratch of the backward pass is what 16-bit gradients
/// leave of `attentionBackScratch`.
bool attends(const AttentionValues& values, bool back);

/// As in kernels/attend.hpp, if `attends` says yes.
void attend(const ExecSpace& space, const AttentionValues& values, Real* scratch);
void attendBack(const ExecSpace& space, const AttentionValues& values, const AttentionGradients& gradients);

/// Frees what is cached for attention. Called before the device is shut down.
void forgetAttention();

} // namespace partita::cudnn
