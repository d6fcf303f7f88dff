#pragma once

namespace partita {

/// Makes this thread, and all threads that it starts later, take floating-point numbers below the normal
/// range (1.2e-38 in float) for zero, as operands and as results. Training produces many of them: the moments
/// of a neuron that fell silent shrink forever, and so do probabilities of wrong classes. Many processors
/// need over a hundred cycles for an operation on such a number. Has no effect on other processors than
/// x86-64 and ARM64, or on devices.
void flushSubnormals();

} // namespace partita
