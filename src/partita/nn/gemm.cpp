#include "partita/nn/gemm.hpp"

#include "partita/core/clock.hpp"
#include "partita/core/error.hpp"
#include "partita/core/region.hpp"

#include <KokkosBlas3_gemm.hpp>
#include <KokkosKernels_config.h>
#if defined(KOKKOS_ENABLE_CUDA) && defined(KOKKOSKERNELS_ENABLE_TPL_CUBLAS)
#include <KokkosBlas_tpl_spec.hpp>
#endif

#include <algorithm>

namespace partita {

namespace {
const char* letter(Op op) {
  return op == Op::none ? "N" : "T";
}
} // namespace

void gemm(const ExecSpace& space, Op op_a, Op op_b, Real alpha, const Matrix& a, const Matrix& b, Real beta,
          const Matrix& c) {
  const bool ta = op_a == Op::transpose, tb = op_b == Op::transpose;
  PARTITA_REQUIRE(a.extent(ta ? 1 : 0) == c.extent(0) && b.extent(tb ? 0 : 1) == c.extent(1) &&
                      a.extent(ta ? 0 : 1) == b.extent(tb ? 1 : 0),
                  "matrix product of sizes that do not fit");
  const Region region(space, "partita::gemm", Phase::gemm);
#if KOKKOS_VERSION >= 40000
  KokkosBlas::gemm(space, letter(op_a), letter(op_b), alpha, a, b, beta, c);
#else
  KokkosBlas::gemm(letter(op_a), letter(op_b), alpha, a, b, beta, c);
#endif
}

void expectRoundedOperands() {
#if defined(KOKKOS_ENABLE_CUDA) && defined(KOKKOSKERNELS_ENABLE_TPL_CUBLAS)
  const auto handle = KokkosBlas::Impl::CudaBlasSingleton::singleton().handle;
  PARTITA_REQUIRE(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH) == CUBLAS_STATUS_SUCCESS,
                  "cuBLAS takes no other mode");
#endif
}

std::string gemmPath() {
#if defined(KOKKOS_ENABLE_CUDA) && defined(KOKKOSKERNELS_ENABLE_TPL_CUBLAS)
  return "cuBLAS";
#elif defined(KOKKOS_ENABLE_HIP) && defined(KOKKOSKERNELS_ENABLE_TPL_ROCBLAS)
  return "rocBLAS";
#elif defined(KOKKOSKERNELS_ENABLE_TPL_BLAS) || defined(KOKKOSKERNELS_ENABLE_TPL_MKL)
  return device_is_host ? "BLAS" : "Kokkos Kernels' own loops";
#else
  return "Kokkos Kernels' own loops";
#endif
}

double measureGemmRate(const ExecSpace& space, int n, int repeats) {
  const Matrix a("partita::rate_a", n, n), b("partita::rate_b", n, n), c("partita::rate_c", n, n);
  double best = 0.0;
  for (int i = 0; i <= repeats; ++i) {
    fence(space, "partita::measureGemmRate");
    const auto start = Clock::now();
    gemm(space, Op::none, Op::none, Real(1), a, b, Real(0), c);
    fence(space, "partita::measureGemmRate");
    const double seconds = secondsSince(start);
    if (i > 0) best = std::max(best, 2e-9 * n * n * n / seconds);
  }
  return best;
}

} // namespace partita
