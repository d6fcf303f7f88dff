#pragma once

#include "partita/core/types.hpp"

#include <string>

namespace partita {

enum class Op { none, transpose };

/// C = alpha op(A) op(B) + beta C on row-major matrices, through Kokkos Kernels and so through the vendor's
/// BLAS. Every matrix product of Partita goes through here. All three operands have one layout: with mixed
/// layouts Kokkos Kernels would leave the BLAS without a word.
void gemm(const ExecSpace& space, Op op_a, Op op_b, Real alpha, const Matrix& a, const Matrix& b, Real beta,
          const Matrix& c);

/// From here on operands have at most 11 binary digits, as numbers of 16 bits do: on a GPU by NVIDIA the
/// tensor cores may take them (as TF32, which holds all of bf16 and fp16; sums stay in float). No change
/// elsewhere.
void expectRoundedOperands();

/// The library the products reach: "BLAS", "cuBLAS", "rocBLAS" or "Kokkos Kernels' own loops".
std::string gemmPath();

/// Rate of an n x n x n product in GFLOP/s: the best of `repeats` after one warm-up.
double measureGemmRate(const ExecSpace& space, int n, int repeats);

} // namespace partita
