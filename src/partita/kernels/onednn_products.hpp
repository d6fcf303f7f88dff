#pragma once

#include "partita/kernels/products.hpp"

#include <cstdint>
#include <string>

namespace partita::onednn {

/// "2.6.3", or empty if this build is without oneDNN.
std::string version();

/// Does oneDNN multiply numbers of this precision with the widest instructions of the processor? For floats
/// that is AVX-512, for 16-bit numbers they are instructions for such numbers.
bool multiplies(Precision precision);

/// Products, convolutions and their variants that were compiled so far; 0 without oneDNN.
std::int64_t compiledShapes();

/// The product as in `gemm`, with its epilogue, which needs alpha = 1. Returns false and does nothing if
/// `multiplies` is false, if there is nothing to multiply, or if floats are so few that a BLAS is faster.
bool product(const ExecSpace& space, Op op_a, Op op_b, Real alpha, const TypedMatrix& a, const TypedMatrix& b,
             Real beta, const TypedMatrix& c, const ProductEpilogue& epilogue);

} // namespace partita::onednn
