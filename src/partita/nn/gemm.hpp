#pragma once

#include "partita/core/types.hpp"

#include <string>

namespace partita {

enum class Op { none, transpose };

/// C = alpha op(A) op(B) + beta C on row-major matrices, through Kokkos Kernels and so through the vendor's
/// BLAS. Every matrix product of Partita goes through here. All three operands have the same layout: with
/// mixed layouts Kokkos Kernels would silently not use the BLAS.
void gemm(const ExecSpace& space, Op op_a, Op op_b, Real alpha, const Matrix& a, const Matrix& b, Real beta,
          const Matrix& c);

/// Declares that from here on operands have at most 11 binary digits, as 16-bit numbers do, so that NVIDIA
/// GPUs may use their tensor cores (in TF32, which represents all of bf16 and fp16; sums stay in float). No
/// effect elsewhere.
void expectRoundedOperands();

/// The library that computes the products: "BLAS", "cuBLAS", "rocBLAS" or "Kokkos Kernels' own loops".
std::string gemmPath();

/// Rate of an n x n x n product in GFLOP/s: the best of `repeats` after one warm-up.
double measureGemmRate(const ExecSpace& space, int n, int repeats);

} // namespace partita
