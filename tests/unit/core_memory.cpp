#include "partita/core/types.hpp"

#include "support/allocations.hpp"
#include "support/catch.hpp"

namespace partita::test::core_memory {

TEST_CASE("Allocations are counted with their bytes and labels", "[core]") {
  const Allocations allocations;
  CHECK(allocations.count() == 0);
  {
    const Matrix matrix = makeMatrix("partita::test::a", 100, 30);
    CHECK(allocations.count() == 1);
    CHECK(allocations.foreignLabels() == 0);
    const auto bytes = static_cast<std::int64_t>(3000 * sizeof(Real));
    CHECK(allocations.liveBytes() >= bytes); // Kokkos adds a header
    CHECK(allocations.liveBytes() < bytes + 1024);
    CHECK(AllocationCounter::peakBytes() >= AllocationCounter::liveBytes());

    const Vector foreign("somebody's", 10);
    CHECK(allocations.count() == 2);
    CHECK(allocations.foreignLabels() == 1);
  }
  CHECK(allocations.count() == 2); // freed allocations count as well
  CHECK(allocations.liveBytes() == 0);
}

TEST_CASE("The peak stays when memory is freed", "[core]") {
  const Allocations allocations;
  const std::int64_t before = AllocationCounter::peakBytes();
  { const Vector large("partita::test::large", static_cast<std::size_t>(before) / sizeof(Real) + 100000); }
  const std::int64_t peak = AllocationCounter::peakBytes();
  CHECK(peak > before);
  const Vector small("partita::test::small", 10);
  CHECK(AllocationCounter::peakBytes() == peak);
  CHECK(peakResidentBytes() > 1000000);
}

} // namespace partita::test::core_memory
