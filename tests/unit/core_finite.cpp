#include "partita/core/finite.hpp"

#include <limits>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace partita::test::core_finite {

TEMPLATE_TEST_CASE("A value that is not finite is found wherever it is", "[core]", float, double) {
  using Limits = std::numeric_limits<TestType>;
  std::vector<TestType> values(77); // also some that fill no vector
  const auto count = static_cast<std::int64_t>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = i % 3 == 0 ? Limits::max() : i % 3 == 1 ? Limits::lowest() : Limits::denorm_min();
  CHECK(allFinite(values.data(), count));
  CHECK(allFinite(values.data(), 0));
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (const TestType bad : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
      INFO(i << ": " << bad);
      const TestType good = std::exchange(values[i], bad);
      CHECK_FALSE(allFinite(values.data(), count));
      CHECK(allFinite(values.data(), static_cast<std::int64_t>(i)));
      values[i] = good;
    }
  }
}

} // namespace partita::test::core_finite
