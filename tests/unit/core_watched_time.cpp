#include "partita/core/watched_time.hpp"

#include "support/catch.hpp"

namespace partita::test::core_watched_time {

TEST_CASE("Only a part of a time without a look counts", "[core]") {
  double seconds = 0.0;
  WatchedTime time([&] { return seconds; });
  CHECK(time.look(1.0) == 0.0);
  for (const double moment : {0.5, 1.5, 2.0}) {
    seconds = moment;
    CHECK(time.look(1.0) == moment);
  }
  seconds = 1000.0; // the job was suspended
  CHECK(time.look(1.0) == 3.0);
  seconds = 1000.5;
  CHECK(time.look(1.0) == 3.5);
}

} // namespace partita::test::core_watched_time
