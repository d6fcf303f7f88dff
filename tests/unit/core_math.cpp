#include "partita/core/math.hpp"
#include "partita/core/types.hpp"

#include <limits>

#include "support/catch.hpp"

namespace partita::test::core_math {

TEST_CASE("The exponential of softmax rows is that of the C library", "[core]") {
  double worst = 0.0;
  for (float x = -86.9F; x < 87.9F; x += 0.0173F) {
    worst =
        std::max(worst, std::abs(static_cast<double>(rowExp(x)) / std::exp(static_cast<double>(x)) - 1.0));
  }
  CHECK(worst < 2e-7);
  CHECK(rowExp(0.0F) == 1.0F);
  CHECK(rowExp(-88.0F) == 0.0F);
  CHECK(rowExp(-1e30F) == 0.0F);
  if (device_is_host) CHECK(rowExp(1e30F) == rowExp(88.0F));
  CHECK(rowExp(-std::numeric_limits<float>::infinity()) == 0.0F);
  CHECK(std::isnan(rowExp(std::numeric_limits<float>::quiet_NaN())));
  CHECK(rowExp(-0.5) == std::exp(-0.5)); // double precision uses the library function
}

TEST_CASE("The hyperbolic tangent of activations is that of the C library", "[core]") {
  double worst = 0.0;
  for (int i = 1; i <= 200000; ++i) {
    const auto x = static_cast<float>(i) * 5e-5F;
    worst =
        std::max(worst, std::abs(static_cast<double>(rowTanh(x)) / std::tanh(static_cast<double>(x)) - 1.0));
    CHECK(rowTanh(-x) == -rowTanh(x));
  }
  CHECK(worst < 3e-7);
  CHECK(rowTanh(1e-30F) == 1e-30F);
  CHECK(rowTanh(0.0F) == 0.0F);
  for (const float large : {20.0F, 1e30F, std::numeric_limits<float>::infinity()}) {
    CHECK(rowTanh(large) == 1.0F);
    CHECK(rowTanh(-large) == -1.0F);
  }
  CHECK(std::isnan(rowTanh(std::numeric_limits<float>::quiet_NaN())));
  CHECK(rowTanh(0.5) == std::tanh(0.5));
}

TEST_CASE("The probability of a normal number below another is that of the error function", "[core]") {
  double worst = 0.0;
  for (int i = -60000; i <= 60000; ++i) {
    const float z = static_cast<float>(i) * 1e-4F;
    const double exact = 0.5 * std::erfc(-static_cast<double>(z) / std::sqrt(2.0));
    worst = std::max(worst, std::abs(static_cast<double>(normalCdf(z, rowExp(-0.5F * z * z))) - exact));
  }
  CHECK(worst < 3e-7);
  CHECK(normalCdf(1.0, 0.0) == Approx(0.5 * std::erfc(-std::sqrt(0.5))).epsilon(1e-14));
}

} // namespace partita::test::core_math
