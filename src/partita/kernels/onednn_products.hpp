#pragma once

#include "partita/kernels/products.hpp"

#include <string>

namespace partita::onednn {

/// "2.6.3", or empty if this build is without oneDNN.
std::string version();

/// Does the processor have instructions that multiply 16-bit numbers of this precision, and oneDNN use them?
bool multiplies(Precision precision);

/// The product as in `gemm` for 16-bit operands. Returns false and does nothing if `multiplies` is false, or
/// if there is nothing to multiply.
bool product(const ExecSpace& space, Op op_a, Op op_b, Real alpha, const TypedMatrix& a, const TypedMatrix& b,
             Real beta, const TypedMatrix& c);

} // namespace partita::onednn
