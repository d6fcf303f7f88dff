#include "partita/kernels/products.hpp"

#include "partita/core/clock.hpp"
#include "partita/core/error.hpp"
#include "partita/core/loops.hpp"
#include "partita/core/packs.hpp"
#include "partita/core/provenance.hpp"
#include "partita/core/region.hpp"
#include "partita/kernels/cublaslt.hpp"
#include "partita/kernels/onednn_products.hpp"

#include <KokkosBlas3_gemm.hpp>
#include <KokkosKernels_config.h>

#include <algorithm>
#include <utility>

namespace partita {

namespace {

const char* letter(Op op) {
  return op == Op::none ? "N" : "T";
}

Matrix asReal(const TypedMatrix& matrix) {
  const Matrix whole(static_cast<Real*>(matrix.data), matrix.rows, matrix.stride);
  if (matrix.columns == matrix.stride) return whole;
  return Kokkos::subview(whole, Kokkos::ALL, std::make_pair(std::int64_t{0}, matrix.columns));
}

/// Kokkos Kernels from 3.5 on takes a product with one column for that of a matrix and a vector, whose values
/// it expects one after another.
bool hasGaps(Op op_a, Op op_b, const TypedMatrix& b, const TypedMatrix& c) {
  return op_a == Op::none && op_b == Op::none && c.columns == 1 && (b.stride != 1 || c.stride != 1);
}

/// All three operands have the same layout: with mixed layouts Kokkos Kernels would silently not use the
/// BLAS.
void realProduct(const ExecSpace& space, Op op_a, Op op_b, Real alpha, const Matrix& a, const Matrix& b,
                 Real beta, const Matrix& c) {
#if KOKKOS_VERSION >= 40000
  KokkosBlas::gemm(space, letter(op_a), letter(op_b), alpha, a, b, beta, c);
#else
  (void)space;
  KokkosBlas::gemm(letter(op_a), letter(op_b), alpha, a, b, beta, c);
#endif
}

/// A value of C, with strides along the rows and columns of op(A) and op(B).
template <class In, class Out>
struct LoopProduct {
  const In *a, *b;
  Out* c;
  std::int64_t a_row, a_column, b_row, b_column, c_row, depth;
  Real alpha, beta;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const {
    Real sum = 0;
    for (std::int64_t l = 0; l < depth; ++l)
      sum += toReal(a[i * a_row + l * a_column]) * toReal(b[l * b_row + j * b_column]);
    Out& out = c[i * c_row + j];
    out = fromReal<Out>(alpha * sum + (beta == Real(0) ? Real(0) : beta * toReal(out)));
  }
};

template <class In, class Out>
void loopProduct(const ExecSpace& space, bool ta, bool tb, Real alpha, const TypedMatrix& a,
                 const TypedMatrix& b, Real beta, const TypedMatrix& c) {
  const LoopProduct<In, Out> body{static_cast<const In*>(a.data),
                                  static_cast<const In*>(b.data),
                                  static_cast<Out*>(c.data),
                                  ta ? 1 : a.stride,
                                  ta ? a.stride : 1,
                                  tb ? 1 : b.stride,
                                  tb ? b.stride : 1,
                                  c.stride,
                                  ta ? a.rows : a.columns,
                                  alpha,
                                  beta};
  forEachElement(space, "partita::gemm_loops", c.rows, c.columns, body);
}

void loopProducts(const ExecSpace& space, bool ta, bool tb, Real alpha, const TypedMatrix& a,
                  const TypedMatrix& b, Real beta, const TypedMatrix& c) {
  withStored(a.precision, [&](auto stored) {
    using In = decltype(stored);
    if (c.precision == Precision::single)
      loopProduct<In, Real>(space, ta, tb, alpha, a, b, beta, c);
    else
      loopProduct<In, In>(space, ta, tb, alpha, a, b, beta, c);
  });
}

template <class Bias, class Stored>
struct ApplyEpilogue {
  const Bias* bias; // null: none
  bool relu;
  Stored* c;
  std::int64_t stride;
  bool aligned() const { return alignedForPacks(bias, c) && stride % values_per_pack == 0; }

  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P, std::int64_t i, std::int64_t j) const {
    Stored* at = c + i * stride + j;
    const bool clips = relu;
    const auto offset = bias != nullptr ? P::load(bias + j) : P::all(0);
    P::store(at, P::map(
                     [=](Real value, Real more) {
                       const Real z = value + more;
                       return clips && z <= 0 ? Real(0) : z; // NaN stays NaN
                     },
                     P::load(at), offset));
  }
};

template <class Bias, class Stored>
void applyEpilogue(const ExecSpace& space, const TypedMatrix& c, const Bias* bias, bool relu) {
  const ApplyEpilogue<Bias, Stored> body{bias, relu, c.as<Stored>(), c.stride};
  forEachPack(space, "partita::gemm_epilogue", c.rows, c.columns, body.aligned(), body);
}

} // namespace

void gemm(const ExecSpace& space, Op op_a, Op op_b, Real alpha, const TypedMatrix& a, const TypedMatrix& b,
          Real beta, const TypedMatrix& c, const ProductEpilogue& epilogue, Precision exact_in) {
  const bool ta = op_a == Op::transpose, tb = op_b == Op::transpose;
  PARTITA_REQUIRE((ta ? a.columns : a.rows) == c.rows && (tb ? b.rows : b.columns) == c.columns &&
                      (ta ? a.rows : a.columns) == (tb ? b.columns : b.rows) &&
                      (epilogue.sums.size == 0 || (ta && epilogue.sums.size == a.columns)),
                  "matrix product of sizes that do not fit");
  PARTITA_REQUIRE(a.precision == b.precision &&
                      (c.precision == a.precision || c.precision == Precision::single),
                  "matrix product of precisions that do not fit");
  PARTITA_REQUIRE(epilogue.stored_bias == nullptr || epilogue.bias != nullptr || takesStoredBias(c.precision),
                  "a product that cannot add a bias of 16 bits");
  const Region region(space, "partita::gemm", Phase::gemm);
  const auto by_cublaslt = [&](const ProductEpilogue& own) {
    return cublaslt::product(space, op_a, op_b, alpha, a, b, beta, c, own, exact_in);
  };
  if (by_cublaslt(epilogue)) return;
  const bool empty = a.rows * a.columns == 0; // then libraries leave C as it is
  const ProductEpilogue fused = alpha == Real(1) ? epilogue : ProductEpilogue{};
  const bool alone = epilogue.empty() && epilogue.sums.size == 0, by_library = !alone && by_cublaslt({}),
             by_onednn = !by_library && onednn::product(space, op_a, op_b, alpha, a, b, beta, c, fused);
  const bool by_blas = a.precision == Precision::single && !empty && !hasGaps(op_a, op_b, b, c);
  if (!by_library && !by_onednn && by_blas)
    realProduct(space, op_a, op_b, alpha, asReal(a), asReal(b), beta, asReal(c));
  else if (!by_library && !by_onednn)
    loopProducts(space, ta, tb, alpha, a, b, beta, c);
  if (!by_onednn || fused.empty()) applyEpilogue(space, c, epilogue);
  if (epilogue.sums.size > 0) columnSums(space, a, epilogue.sums);
}

void applyEpilogue(const ExecSpace& space, const TypedMatrix& c, const ProductEpilogue& epilogue) {
  if (epilogue.empty()) return;
  withStored(c.precision, [&](auto stored) {
    using Stored = decltype(stored);
    if (is_real<Stored> || epilogue.stored_bias == nullptr)
      applyEpilogue<Real, Stored>(space, c, epilogue.bias, epilogue.relu);
    else
      applyEpilogue<Stored, Stored>(space, c, static_cast<const Stored*>(epilogue.stored_bias),
                                    epilogue.relu);
  });
}

void columnSums(const ExecSpace& space, const TypedMatrix& a, const TypedSpan& sums) {
  withStored(a.precision, [&](auto stored) {
    using In = decltype(stored);
    withStored(sums.precision, [&](auto summed) {
      using Out = decltype(summed);
      sumColumns(space, "partita::gemm_sums", a.rows, a.columns, ValuesOf<In>{a.as<In>(), a.stride},
                 static_cast<Out*>(sums.data), false);
    });
  });
}

bool fusesSums(Precision precision) {
  return cublaslt::multiplies(precision) || (row_teams && device_is_host);
}

bool takesStoredBias(Precision precision) {
  return precision != Precision::single && cublaslt::multiplies(precision);
}

bool fusesEpilogues() {
  return onednn::multiplies(Precision::single) || cublaslt::multiplies(Precision::single);
}

bool multipliesDirectly(Precision precision) {
  return precision == Precision::single || onednn::multiplies(precision) || cublaslt::multiplies(precision);
}

bool lacksProducts(Precision precision) {
  return device_is_host && sizeof(Real) == sizeof(float) && precision == Precision::bf16 &&
         onednn::version().empty() && multipliesBf16Fast();
}

std::string gemmPath(Precision precision) {
  if (cublaslt::multiplies(precision)) return "cuBLASLt " + cublaslt::version();
  if (onednn::multiplies(precision)) return "oneDNN " + onednn::version();
  if (precision != Precision::single) return "converted to float";
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

std::string productAdvice() {
  if (gemmPath() != "Kokkos Kernels' own loops") return "";
  return "Kokkos Kernels multiplies matrices with its own loops, about ten times as slowly as a BLAS; build "
         "Kokkos Kernels with one (-DKokkosKernels_ENABLE_TPL_BLAS=ON), and Partita again";
}

namespace {

/// Numbers that differ: with zeros, devices draw less power and run faster than in training.
template <class Stored>
struct FillDifferent {
  Stored* values;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    values[i] = fromReal<Stored>(static_cast<Real>(i * 37 % 101 - 50) / 64);
  }
};

} // namespace

double measureGemmRate(const ExecSpace& space, int n, int repeats, Precision precision) {
  const Precision stored = multipliesDirectly(precision) ? precision : Precision::single;
  const std::int64_t bytes = std::int64_t{n} * n * bytesOf(stored);
  const Kokkos::View<char*, MemSpace> a("partita::rate_a", bytes), b("partita::rate_b", bytes);
  withStored(stored, [&](auto type) {
    using Stored = decltype(type);
    for (const auto& view : {a, b})
      forEachValue(space, "partita::rate_fill", std::int64_t{n} * n,
                   FillDifferent<Stored>{reinterpret_cast<Stored*>(view.data())});
  });
  const Matrix c("partita::rate_c", n, n);
  const auto operand = [&](const auto& view) {
    return TypedMatrix({stored, view.data(), std::int64_t{n} * n}, n, n);
  };
  constexpr int at_once =
      device_is_host ? 1 : 8; // so that a device is not measured while it waits for the host
  double best = 0.0;
  for (int i = 0; i <= repeats; ++i) {
    fence(space, "partita::measureGemmRate");
    const auto start = Clock::now();
    for (int j = 0; j < at_once; ++j)
      gemm(space, Op::none, Op::none, Real(1), operand(a), operand(b), Real(0), c);
    fence(space, "partita::measureGemmRate");
    const double seconds = secondsSince(start) / at_once;
    if (i > 0) best = std::max(best, 2e-9 * n * n * n / seconds);
  }
  return best;
}

} // namespace partita
