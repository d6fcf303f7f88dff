#include "partita/core/error.hpp"
#include "partita/nn/gemm.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::nn_gemm {

namespace {

constexpr DefaultSpace space;
constexpr double tolerance = sizeof(Real) == 4 ? 1e-6 : 1e-14;

/// Element (i, k) of op(A).
double element(const Values& a, Op op, std::int64_t rows, std::int64_t columns, std::int64_t i,
               std::int64_t k) {
  return a[static_cast<std::size_t>(op == Op::none ? i * columns + k : k * rows + i)];
}

/// The expected result of gemm, with op(A) [m, k] and op(B) [k, n].
Values byHand(Op op_a, Op op_b, double alpha, const Values& a, const Values& b, double beta, Values c,
              std::int64_t m, std::int64_t n, std::int64_t k) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (std::int64_t l = 0; l < k; ++l) sum += element(a, op_a, m, k, i, l) * element(b, op_b, k, n, l, j);
      double& out = c[static_cast<std::size_t>(i * n + j)];
      out = alpha * sum + (beta == 0.0 ? 0.0 : beta * out);
    }
  }
  return c;
}

/// The names of all regions that begin during the life of the object.
class Regions {
 public:
  Regions() {
    names().clear();
    Kokkos::Tools::Experimental::set_push_region_callback([](const char* name) { names().push_back(name); });
  }
  ~Regions() { Kokkos::Tools::Experimental::set_push_region_callback(nullptr); }
  Regions(const Regions&) = delete;
  Regions& operator=(const Regions&) = delete;

  static std::vector<std::string>& names() {
    static std::vector<std::string> all;
    return all;
  }
};

Matrix operand(Op op, std::int64_t rows, std::int64_t columns, const Values& values) {
  return op == Op::none ? matrixOf(rows, columns, values) : matrixOf(columns, rows, values);
}

} // namespace

TEST_CASE("The matrix product, all transposes, odd sizes", "[nn]") {
  const std::int64_t sizes[][3] = {{1, 1, 1}, {3, 5, 7}, {17, 1, 4}, {1, 33, 9}, {31, 47, 13}, {64, 32, 65}};
  for (const auto& [m, n, k] : sizes) {
    const Values a = normals(m * k, 1), b = normals(k * n, 2), c = normals(m * n, 3);
    for (const Op op_a : {Op::none, Op::transpose}) {
      for (const Op op_b : {Op::none, Op::transpose}) {
        for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, {0.5, 1.0}, {-2.0, 0.25}}) {
          INFO(m << " " << n << " " << k << ", beta " << beta);
          const Matrix result = matrixOf(m, n, c);
          gemm(space, op_a, op_b, static_cast<Real>(alpha), operand(op_a, m, k, a), operand(op_b, k, n, b),
               static_cast<Real>(beta), result);
          CHECK(relativeError(valuesOf(result), byHand(op_a, op_b, alpha, a, b, beta, c, m, n, k)) <
                tolerance);
        }
      }
    }
  }
}

TEST_CASE("With beta 0 the old content does not matter, whatever it was", "[nn]") {
  const Matrix c = matrixOf(3, 3, Values(9, std::numeric_limits<double>::quiet_NaN()));
  gemm(space, Op::none, Op::none, Real(1), matrixOf(3, 2, Values(6, 1.0)), matrixOf(2, 3, Values(6, 1.0)),
       Real(0), c);
  CHECK(valuesOf(c) == Values(9, 2.0));
}

TEST_CASE("Matrices that do not fit are refused", "[nn]") {
  const Matrix a = matrixOf(3, 2, Values(6)), c = matrixOf(3, 3, Values(9));
  CHECK_THROWS_AS(gemm(space, Op::none, Op::none, Real(1), a, a, Real(0), c), InternalError);
  CHECK_THROWS_AS(gemm(space, Op::transpose, Op::none, Real(1), a, a, Real(0), c), InternalError);
  CHECK_NOTHROW(gemm(space, Op::none, Op::transpose, Real(1), a, a, Real(0), c));
}

TEST_CASE("Every product goes to the vendor's BLAS where Kokkos Kernels has it", "[nn]") {
  if (gemmPath() == "Kokkos Kernels' own loops") return;
  const Matrix a = matrixOf(6, 6, Values(36, 1.0)), b = matrixOf(6, 6, Values(36, 2.0)),
               c = makeMatrix("partita::test::c", 6, 6);
  for (const Op op_a : {Op::none, Op::transpose}) {
    for (const Op op_b : {Op::none, Op::transpose}) {
      const Regions regions;
      gemm(space, op_a, op_b, Real(1), a, b, Real(0), c);
      const auto& names = Regions::names();
      CHECK(std::any_of(names.begin(), names.end(), [](const std::string& name) {
        return name.find("gemm[TPL_") != std::string::npos; // Kokkos Kernels names it
      }));
    }
  }
}

TEST_CASE("The path and the rate of matrix products are known", "[nn]") {
  CHECK_FALSE(gemmPath().empty());
  CHECK(measureGemmRate(space, 64, 2) > 0.0);
}

} // namespace partita::test::nn_gemm
