#include "partita/comm/loss_watch.hpp"

#include "small_run.hpp"
#include "support/catch.hpp"

namespace partita::test::loss_watch {

TEST_CASE("A job that is suspended after a loss still has time to end a file", "[loss_watch]") {
  constexpr double patience = 60.0, between_looks = 0.25, suspended = 36000.0;
  double seconds = 0.0;
  LossWatch watch(everyone(), LossWatch::After::go_on, patience, [&] { return seconds; });
  if (everyone().rank() == 0) {
    const LossWatch::Together file;
    CHECK(LossWatch::giveUp({everyone().size() - 1}));
    for (const double passed : {between_looks, between_looks, suspended, between_looks}) {
      seconds += passed;
      Waiting({WaitedFor::Kind::any, "test"}).sleep(0.0); // looks; would end the job if all time counted
    }
    watch.hold(true); // nobody is to leave after the file
  }
  everyone().barrier();
}

} // namespace partita::test::loss_watch
