#pragma once

#include "partita/kernels/products.hpp"

#include <string>

namespace partita::cublaslt {

/// "13.0.2", or empty if this build is without cuBLASLt.
std::string version();

/// Does the library multiply numbers of this precision?
bool multiplies(Precision precision);

/// The product as in `gemm`, with its epilogue. Returns false and does nothing if `multiplies` is false, if
/// there is nothing to multiply, or if the library has no reproducible algorithm for the shape.
bool product(const ExecSpace& space, Op op_a, Op op_b, Real alpha, const TypedMatrix& a, const TypedMatrix& b,
             Real beta, const TypedMatrix& c, const ProductEpilogue& epilogue, Precision exact_in);

} // namespace partita::cublaslt
