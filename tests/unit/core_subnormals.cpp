#include "partita/core/subnormals.hpp"

#include <thread>

#include "support/catch.hpp"

namespace partita::test::core_subnormals {

#if defined(__SSE__) || defined(__aarch64__)
TEST_CASE("Numbers below the normal range become zero, also in threads that are started later",
          "[core][subnormals]") {
  volatile float small = 2e-38F;
  float result = -1.0F, of_operand = -1.0F, of_started = -1.0F, before = -1.0F;
  std::thread worker([&] { // a thread of its own: the other tests of this program compute with such numbers
    volatile float subnormal = small * 0.25F;
    before = subnormal;
    flushSubnormals();
    result = small * 0.25F;
    of_operand = subnormal * 1e10F;
    std::thread([&] { of_started = small * 0.25F; }).join();
  });
  worker.join();
  CHECK(before > 0.0F);
  CHECK(result == 0.0F);
  CHECK(of_operand == 0.0F);
  CHECK(of_started == 0.0F);
  CHECK(small * 0.25F > 0.0F);
}
#endif

} // namespace partita::test::core_subnormals
