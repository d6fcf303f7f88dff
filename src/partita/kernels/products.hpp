#pragma once

#include "partita/core/typed_matrix.hpp"

#include <string>

namespace partita {

enum class Op { none, transpose };

/// What becomes of each value of C: the bias of its column is added, and negative values become 0. The bias
/// is given as `Real`, or as it is stored in the precision of C, or both.
///
/// `sums`, if it is not empty, gets the sums of the columns of A, which must then be transposed: if
/// C is the gradient of the weights, these sums are the gradient of the bias. They are never added
/// to what is there.
struct ProductEpilogue {
  const Real* bias = nullptr; ///< [n], as many as C has columns
  bool relu = false;
  const void* stored_bias = nullptr; ///< [n], not used if C is `Real`
  TypedSpan sums = {};               ///< [m], as many as C has rows

  bool empty() const { return bias == nullptr && stored_bias == nullptr && !relu; }
};

/// C = alpha op(A) op(B) + beta C on row-major matrices: op(A) [m, k], op(B) [k, n], C [m, n]. Every matrix
/// product of Partita goes through here. A and B have the same precision, C has either that or `Real`; sums
/// are float sums of all products. With beta 0 the old content of C does not matter. The epilogue comes last.
/// `exact_in`: the numbers of A and B fit into this precision, or may be rounded to it; then NVIDIA's tensor
/// cores multiply `Real` numbers in TF32. Throws InternalError if shapes or precisions do not fit, if `sums`
/// are wanted without `Op::transpose` of A, or if there is only a `stored_bias` although
/// `takesStoredBias(C's precision)` is false.
///
/// On NVIDIA devices cuBLASLt computes products of any precision. Products of `Real` go to oneDNN on hosts
/// with AVX-512, unless they are tiny; otherwise through Kokkos Kernels to the vendor's BLAS. Products of
/// 16-bit numbers go to oneDNN where `multipliesDirectly`; otherwise plain loops compute them, which are
/// correct but slow.
void gemm(const ExecSpace& space, Op op_a, Op op_b, Real alpha, const TypedMatrix& a, const TypedMatrix& b,
          Real beta, const TypedMatrix& c, const ProductEpilogue& epilogue = {},
          Precision exact_in = Precision::single);

/// The epilogue alone, without sums, on each row of C.
void applyEpilogue(const ExecSpace& space, const TypedMatrix& c, const ProductEpilogue& epilogue);

/// May a bias in the precision of C, 16 bits, be given only as it is stored?
bool takesStoredBias(Precision precision);

/// Does an epilogue cost less than a kernel of its own?
bool fusesEpilogues();

/// Is it faster to compute `sums` in a product of numbers of a precision than in the element-wise kernel that
/// writes its A? With cuBLASLt it is: a kernel that adds up the few columns of A does not keep a device busy.
/// Hosts do it only in builds that test the kernels of devices.
bool fusesSums(Precision precision);

/// The sums of the columns of a matrix, by a kernel of its own: a [rows, n] -> sums [n].
void columnSums(const ExecSpace& space, const TypedMatrix& a, const TypedSpan& sums);

/// Are there a library and instructions that multiply numbers stored like this? If not, it is faster to
/// convert them to `Real` first.
bool multipliesDirectly(Precision precision);

/// Would the processor multiply such numbers faster than floats, if this build had a library for it?
bool lacksProducts(Precision precision);

/// The library that computes the products of `Real`: "oneDNN 2.6.3", "BLAS", "cuBLASLt 13.0.2", "cuBLAS",
/// "rocBLAS" or "Kokkos Kernels' own loops"; and those of 16-bit numbers: "oneDNN 2.6.3", "cuBLASLt 13.0.2",
/// or "converted to float".
std::string gemmPath(Precision precision = Precision::single);

/// How to get a library if there is none for products of `Real`; empty if there is one.
std::string productAdvice();

/// Rate of an n x n x n product of numbers of a precision in GFLOP/s: the best of `repeats` after one
/// warm-up. Numbers without direct products are converted before, outside the measurement.
double measureGemmRate(const ExecSpace& space, int n, int repeats, Precision precision = Precision::single);

} // namespace partita
