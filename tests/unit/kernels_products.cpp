#include "partita/core/error.hpp"
#include "partita/kernels/products.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"
#include "support/regions.hpp"

namespace partita::test::kernels_products {

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

Matrix operand(Op op, std::int64_t rows, std::int64_t columns, const Values& values) {
  return op == Op::none ? matrixOf(rows, columns, values) : matrixOf(columns, rows, values);
}

} // namespace

TEST_CASE("The matrix product, all transposes, odd sizes", "[nn]") {
  const std::int64_t sizes[][3] = {{1, 1, 1},    {3, 5, 7},    {17, 1, 4},   {1, 33, 9},
                                   {31, 47, 13}, {64, 32, 65}, {130, 47, 90}};
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

namespace {

/// A matrix of a precision whose rows lie further apart than they are long, with NaN in between.
class Stored {
 public:
  Stored(Precision precision, std::int64_t rows, std::int64_t columns, std::int64_t gap, const Values& values)
      : _precision(precision), _rows(rows), _columns(columns), _stride(columns + gap),
        _bytes("partita::test::stored", static_cast<std::size_t>(rows * _stride * bytesOf(precision))) {
    Values spread(static_cast<std::size_t>(rows * _stride), std::numeric_limits<double>::quiet_NaN());
    for (std::int64_t i = 0; i < rows * columns; ++i)
      spread[static_cast<std::size_t>(i / columns * _stride + i % columns)] =
          values[static_cast<std::size_t>(i)];
    convert(space, vectorOf(spread), span());
  }

  TypedMatrix matrix() const { return TypedMatrix(span(), _rows, _stride).columnsFrom(0, _columns); }
  /// The values as they are stored.
  Values values() const {
    const Vector all("partita::test::values", static_cast<std::size_t>(_rows * _stride));
    convert(space, span(), all);
    const Values spread = valuesOf(all);
    Values dense;
    for (std::int64_t i = 0; i < _rows * _columns; ++i)
      dense.push_back(spread[static_cast<std::size_t>(i / _columns * _stride + i % _columns)]);
    return dense;
  }

 private:
  TypedSpan span() const { return {_precision, _bytes.data(), _rows * _stride}; }

  Precision _precision;
  std::int64_t _rows, _columns, _stride;
  Kokkos::View<char*, MemSpace> _bytes;
};

Stored operandOf(Precision precision, Op op, std::int64_t rows, std::int64_t columns, std::int64_t gap,
                 std::uint64_t seed) {
  const Values values = normals(rows * columns, seed);
  return op == Op::none ? Stored(precision, rows, columns, gap, values)
                        : Stored(precision, columns, rows, gap, values);
}

/// Half a unit in the last place of a result, relative to the largest, and rounding of float sums.
double toleranceOf(Precision result) {
  return result == Precision::bf16 ? 4e-3 : result == Precision::fp16 ? 5e-4 : tolerance;
}

} // namespace

TEST_CASE("Products of numbers of any precision, of rows that lie apart", "[half]") {
  const std::int64_t sizes[][3] = {{1, 1, 1}, {3, 5, 7}, {17, 1, 4}, {1, 33, 9}, {31, 47, 13}, {64, 130, 65}};
  for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
    for (const Precision result : {Precision::single, precision}) {
      for (const auto& [m, n, k] : sizes) {
        for (const int which : {0, 1, 2, 3}) {
          const Op op_a = which < 2 ? Op::none : Op::transpose,
                   op_b = which % 2 == 0 ? Op::none : Op::transpose;
          const Stored a = operandOf(precision, op_a, m, k, which, 1),
                       b = operandOf(precision, op_b, k, n, 3 - which, 2);
          for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, {1.0, 1.0}, {-2.0, 0.25}}) {
            INFO("precision " << static_cast<int>(precision) << " to " << static_cast<int>(result) << ", "
                              << m << " " << n << " " << k << ", transposed " << which << ", beta " << beta);
            const Stored c = operandOf(result, Op::none, m, n, 2, 3);
            const Values before = c.values();
            gemm(space, op_a, op_b, static_cast<Real>(alpha), a.matrix(), b.matrix(), static_cast<Real>(beta),
                 c.matrix());
            CHECK(relativeError(c.values(), byHand(op_a, op_b, alpha, a.values(), b.values(), beta, before, m,
                                                   n, k)) < toleranceOf(result));
          }
        }
      }
    }
  }
}

TEST_CASE("Numbers that 16 bits hold may be multiplied as such", "[half]") {
  constexpr std::int64_t n = 96;
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    const Matrix a = matrixOf(n, n, normals(n * n, 1)), b = matrixOf(n, n, normals(n * n, 2)),
                 c = makeMatrix("partita::test::c", n, n);
    roundTo(space, precision, a);
    roundTo(space, precision, b);
    gemm(space, Op::none, Op::transpose, Real(1), a, b, Real(0), c, {}, precision);
    CHECK(relativeError(valuesOf(c), byHand(Op::none, Op::transpose, 1.0, valuesOf(a), valuesOf(b), 0.0,
                                            Values(n * n), n, n, n)) < tolerance);
  }
}

TEST_CASE("Products are the same bit for bit each time", "[half]") {
  const std::int64_t n = 200;
  for (const Precision precision : {Precision::single, Precision::bf16}) {
    for (const Op op : {Op::none, Op::transpose}) {
      const Stored a = operandOf(precision, op, n, 2 * n, 0, 1),
                   b = operandOf(precision, Op::none, 2 * n, n, 0, 2);
      const Matrix first = makeMatrix("partita::test::c", n, n), again = makeMatrix("partita::test::c", n, n);
      gemm(space, op, Op::none, Real(1), a.matrix(), b.matrix(), Real(0), first);
      for (int i = 0; i < 3; ++i) {
        gemm(space, op, Op::none, Real(1), a.matrix(), b.matrix(), Real(0), again);
        CHECK(valuesOf(again) == valuesOf(first));
      }
    }
  }
}

TEST_CASE("Products are the same bit for bit wherever their operands lie", "[nn]") {
  const std::int64_t m = 60, n = 47, k = 130;
  const Values a = normals(m * k, 1), b = normals(n * k, 2);
  /// A matrix that begins some values after an allocation.
  const auto shifted = [](std::int64_t shift, std::int64_t rows, std::int64_t columns, const Values& values,
                          Vector& memory) {
    memory = Vector("partita::test::memory", static_cast<std::size_t>(shift + rows * columns));
    const Matrix matrix(memory.data() + shift, rows, columns);
    Kokkos::deep_copy(matrix, matrixOf(rows, columns, values));
    return matrix;
  };
  Values first;
  for (const std::int64_t shift : {0, 1, 3, 16}) {
    if (!device_is_host && shift % 4 != 0) continue; // cuBLASLt has other kernels for them
    Vector memory[3];
    const Matrix c = shifted(shift, m, n, Values(m * n), memory[2]);
    gemm(space, Op::none, Op::transpose, Real(1), shifted(shift, m, k, a, memory[0]),
         shifted(shift, n, k, b, memory[1]), Real(0), c);
    if (first.empty()) first = valuesOf(c);
    CHECK(valuesOf(c) == first);
  }
}

TEST_CASE("An epilogue adds the bias and clears negative values, after everything else", "[half]") {
  for (const Precision precision : {Precision::single, Precision::bf16}) {
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{3, 5, 7}, {64, 47, 130}, {20, 48, 30}}) {
      const Stored a = operandOf(precision, Op::none, m, k, 0, 1),
                   b = operandOf(precision, Op::transpose, k, n, 0, 2);
      const Values before = normals(m * n, 3), shift = normals(n, 4);
      const Vector bias = vectorOf(shift);
      for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, {1.0, 1.0}, {-2.0, 0.25}}) {
        const Values sums =
            byHand(Op::none, Op::transpose, alpha, a.values(), b.values(), beta, before, m, n, k);
        for (const auto& [biased, relu] : {std::pair{true, false}, {false, true}, {true, true}}) {
          INFO(static_cast<int>(precision)
               << ", " << m << " rows, alpha " << alpha << ", bias " << biased << ", relu " << relu);
          const Matrix c = matrixOf(m, n, before);
          gemm(space, Op::none, Op::transpose, static_cast<Real>(alpha), a.matrix(), b.matrix(),
               static_cast<Real>(beta), c, {biased ? bias.data() : nullptr, relu});
          Values expected = sums;
          for (std::size_t i = 0; i < expected.size(); ++i) {
            if (biased) expected[i] += shift[i % static_cast<std::size_t>(n)];
            if (relu) expected[i] = std::max(expected[i], 0.0);
          }
          CHECK(relativeError(valuesOf(c), expected) < tolerance);
        }
      }
    }
  }
}

/// Only our own: that of a library may turn NaN into 0.
TEST_CASE("An epilogue that clears negative values keeps NaN", "[nn]") {
  if (!device_is_host) return;
  constexpr std::int64_t m = 3, n = 5, k = 7; // too small for oneDNN
  Values shift = normals(n, 4);
  shift[2] = std::numeric_limits<double>::quiet_NaN();
  const Vector bias = vectorOf(shift);
  const Matrix c = makeMatrix("partita::test::c", m, n);
  gemm(space, Op::none, Op::none, Real(1), matrixOf(m, k, normals(m * k, 1)),
       matrixOf(k, n, normals(k * n, 2)), Real(0), c, {bias.data(), true});
  const Values found = valuesOf(c);
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::isnan(found[i]) == (i % n == 2));
}

TEST_CASE("The result of a product with an epilogue may be 16-bit", "[half]") {
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{3, 5, 7}, {64, 47, 130}, {20, 48, 30}}) {
      const Stored a = operandOf(precision, Op::none, m, k, 0, 1),
                   b = operandOf(precision, Op::transpose, k, n, 0, 2), c(precision, m, n, 0, Values(m * n)),
                   stored_bias(precision, 1, n, 0, normals(n, 4));
      const Vector bias = vectorOf(stored_bias.values());
      const Matrix expected = makeMatrix("partita::test::expected", m, n);
      for (const bool relu : {false, true}) {
        gemm(space, Op::none, Op::transpose, Real(1), a.matrix(), b.matrix(), Real(0), c.matrix(),
             {bias.data(), relu});
        gemm(space, Op::none, Op::transpose, Real(1), a.matrix(), b.matrix(), Real(0), expected,
             {bias.data(), relu});
        // Loops round the sum before the bias is added.
        const double tolerance = precision == Precision::bf16 ? 8e-3 : 1e-3;
        CHECK(relativeError(c.values(), valuesOf(expected)) < tolerance);
        const ProductEpilogue as_stored{nullptr, relu, stored_bias.matrix().data};
        const Stored again(precision, m, n, 0, Values(m * n));
        applyEpilogue(space, again.matrix(), as_stored); // on zeros
        const Values found = again.values(), added = stored_bias.values();
        for (std::size_t i = 0; i < found.size(); ++i) {
          const double expected_bias = added[i % added.size()];
          CHECK(found[i] == (relu ? std::max(expected_bias, 0.0) : expected_bias));
        }
        if (!takesStoredBias(precision)) {
          CHECK_THROWS_AS(gemm(space, Op::none, Op::transpose, Real(1), a.matrix(), b.matrix(), Real(0),
                               c.matrix(), as_stored),
                          InternalError);
          continue;
        }
        gemm(space, Op::none, Op::transpose, Real(1), a.matrix(), b.matrix(), Real(0), c.matrix(), as_stored);
        CHECK(relativeError(c.values(), valuesOf(expected)) < tolerance);
      }
    }
  }
}

TEST_CASE("A product for a gradient also adds up the columns of its first operand", "[half]") {
  for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
    for (const Precision result : {Precision::single, precision}) {
      for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{3, 5, 7}, {47, 64, 130}, {600, 3, 70}}) {
        const Stored a = operandOf(precision, Op::transpose, m, k, 3, 1),
                     b = operandOf(precision, Op::none, k, n, 0, 2),
                     c = operandOf(result, Op::none, m, n, 0, 3), sums(result, 1, m, 0, normals(m, 4));
        const Values ones(static_cast<std::size_t>(k), 1.0), before = c.values();
        for (const double beta : {0.0, 1.0}) {
          INFO("precision " << static_cast<int>(precision) << " to " << static_cast<int>(result) << ", " << m
                            << " columns, beta " << beta);
          const Stored sum = operandOf(result, Op::none, m, n, 0, 3);
          gemm(space, Op::transpose, Op::none, Real(1), a.matrix(), b.matrix(), static_cast<Real>(beta),
               sum.matrix(), {nullptr, false, nullptr, sums.matrix().values()});
          CHECK(relativeError(sum.values(), byHand(Op::transpose, Op::none, 1.0, a.values(), b.values(), beta,
                                                   before, m, n, k)) < toleranceOf(result));
          CHECK(relativeError(sums.values(), byHand(Op::transpose, Op::none, 1.0, a.values(), ones, 0.0,
                                                    Values(static_cast<std::size_t>(m)), m, 1, k)) <
                toleranceOf(result));
        }
      }
    }
  }
}

TEST_CASE("Sums that do not fit are refused", "[half]") {
  const Matrix a = matrixOf(3, 2, Values(6)), c = matrixOf(2, 2, Values(4));
  const Vector two = vectorOf(Values(2)), three = vectorOf(Values(3));
  const auto multiply = [&](Op op, const Matrix& to, const Vector& sums) {
    gemm(space, op, op == Op::none ? Op::transpose : Op::none, Real(1), a, a, Real(0), to,
         {nullptr, false, nullptr, sums});
  };
  CHECK_NOTHROW(multiply(Op::transpose, c, two));
  CHECK_THROWS_AS(multiply(Op::transpose, c, three), InternalError);
  CHECK_THROWS_AS(multiply(Op::none, matrixOf(3, 3, Values(9)), three), InternalError);
}

TEST_CASE("Empty products leave beta times the old content", "[half]") {
  for (const Precision precision : {Precision::single, Precision::bf16}) {
    const Stored a(precision, 3, 0, 0, {}), b(precision, 0, 2, 0, {});
    const Matrix c = matrixOf(3, 2, Values(6, 2.0));
    gemm(space, Op::none, Op::none, Real(1), a.matrix(), b.matrix(), Real(0.5), c);
    CHECK(valuesOf(c) == Values(6, 1.0));
    const Stored none(precision, 0, 2, 0, {});
    CHECK_NOTHROW(gemm(space, Op::none, Op::transpose, Real(1), none.matrix(), none.matrix(), Real(0),
                       Matrix("partita::test::empty", 0, 0)));
  }
}

TEST_CASE("Products of precisions that do not fit are refused", "[half]") {
  const Stored half(Precision::bf16, 2, 2, 0, Values(4, 1.0)),
      other(Precision::fp16, 2, 2, 0, Values(4, 1.0));
  const Matrix real = matrixOf(2, 2, Values(4, 1.0));
  const auto multiply = [&](const TypedMatrix& a, const TypedMatrix& b, const TypedMatrix& c) {
    gemm(space, Op::none, Op::none, Real(1), a, b, Real(0), c);
  };
  CHECK_THROWS_AS(multiply(half.matrix(), other.matrix(), real), InternalError);
  CHECK_THROWS_AS(multiply(half.matrix(), real, real), InternalError);
  CHECK_THROWS_AS(multiply(real, real, half.matrix()), InternalError);
}

TEST_CASE("Every product goes to oneDNN or to the vendor's BLAS where Kokkos Kernels has it", "[nn]") {
  if (gemmPath() == "Kokkos Kernels' own loops" || gemmPath().find("cuBLASLt") == 0) return;
  for (const std::int64_t n : {6, 64}) { // oneDNN takes those that are large enough
    const bool by_blas = n == 6 || gemmPath().find("oneDNN") == std::string::npos;
    const Values ones(static_cast<std::size_t>(n * n), 1.0);
    const Matrix a = matrixOf(n, n, ones), b = matrixOf(n, n, ones), c = makeMatrix("partita::test::c", n, n);
    for (const Op op_a : {Op::none, Op::transpose}) {
      for (const Op op_b : {Op::none, Op::transpose}) {
        const Regions regions;
        gemm(space, op_a, op_b, Real(1), a, b, Real(0), c);
        const auto& names = Regions::names();
        const auto has = [&](const std::string& part) {
          return std::any_of(names.begin(), names.end(),
                             [&](const std::string& name) { return name.find(part) != std::string::npos; });
        };
        CHECK(has("gemm[TPL_") == by_blas); // Kokkos Kernels names it
        CHECK_FALSE(has("gemm_loops"));
      }
    }
  }
}

TEST_CASE("The path and the rate of matrix products are known", "[nn]") {
  CHECK_FALSE(gemmPath().empty());
  for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
    CHECK(measureGemmRate(space, 64, 2, precision) > 0.0);
    CHECK(multipliesDirectly(precision) != (gemmPath(precision) == "converted to float"));
    CHECK_FALSE((lacksProducts(precision) && multipliesDirectly(precision)));
  }
}

} // namespace partita::test::kernels_products
