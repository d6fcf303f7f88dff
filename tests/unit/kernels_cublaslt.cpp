#include "partita/kernels/cublaslt.hpp"

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::kernels_cublaslt {

/// Results are compared in kernels_products.cpp, for whichever library is there. Here: that this one is taken
/// on NVIDIA devices, for all shapes and types that training has.

namespace {
constexpr DefaultSpace space;
}

TEST_CASE("Without cuBLASLt products go elsewhere", "[kernels]") {
  if (!cublaslt::version().empty()) return;
  CHECK_FALSE(cublaslt::multiplies(Precision::single));
  const Matrix a = matrixOf(2, 2, Values(4, 1.0)), c = matrixOf(2, 2, Values(4, 5.0));
  CHECK_FALSE(cublaslt::product(space, Op::none, Op::none, Real(1), a, a, Real(0), c, {}, Precision::single));
  CHECK(valuesOf(c) == Values(4, 5.0));
}

TEST_CASE("cuBLASLt takes the products of training, with epilogues", "[kernels]") {
  if (cublaslt::version().empty()) return;
  CHECK(fusesEpilogues());
  const std::int64_t sizes[][3] = {{128, 256, 784}, {128, 47, 256}, {1, 10, 3}, {512, 768, 50257}};
  for (const auto& [m, n, k] : sizes) {
    const Matrix out = makeMatrix("partita::test::out", m, n);
    const Vector bias("partita::test::bias", static_cast<std::size_t>(n));
    for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
      if (!cublaslt::multiplies(precision)) continue;
      const Kokkos::View<char*, MemSpace> a("partita::test::a", m * k * bytesOf(precision)),
          b("partita::test::b", n * k * bytesOf(precision));
      const TypedMatrix left({precision, a.data(), m * k}, m, k), right({precision, b.data(), n * k}, n, k);
      for (const ProductEpilogue& epilogue :
           {ProductEpilogue{}, ProductEpilogue{bias.data()}, ProductEpilogue{bias.data(), true}}) {
        INFO(m << " " << n << " " << k << ", precision " << static_cast<int>(precision));
        CHECK(cublaslt::product(space, Op::none, Op::transpose, Real(1), left, right, Real(0), out, epilogue,
                                Precision::single));
      }
      if (n % 8 != 0 || sizeof(Real) == 8) continue; // kernels for other gradients may not exist
      const Kokkos::View<char*, MemSpace> grad("partita::test::grad", m * n * bytesOf(precision)),
          sums("partita::test::sums", n * bytesOf(precision));
      CHECK(cublaslt::product(space, Op::transpose, Op::none, Real(1), {precision, grad.data(), m, n}, left,
                              Real(0), right, {nullptr, false, nullptr, {precision, sums.data(), n}},
                              Precision::single));
      if (precision == Precision::single) continue;
      // A result of 16 bits takes a bias that is stored so.
      const TypedMatrix rounded(precision, grad.data(), m, n);
      const auto forward = [&](const void* stored) {
        return cublaslt::product(space, Op::none, Op::transpose, Real(1), left, right, Real(0), rounded,
                                 {bias.data(), true, stored}, Precision::single);
      };
      CHECK(forward(sums.data()));
      CHECK_FALSE(forward(nullptr));
    }
  }
  fence(space, "partita::test");
}

} // namespace partita::test::kernels_cublaslt
