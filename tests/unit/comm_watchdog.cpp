#include "partita/comm/wait_table.hpp"

#include <numeric>

#include "support/catch.hpp"

namespace partita::test::comm_watchdog {

namespace {

using Kind = WaitedFor::Kind;
using Ranks = std::vector<int>;

Sign waitsFor(int peer, double seconds) {
  return Sign::ofWait({Kind::message, "activations", peer, 17}, seconds);
}
Sign waitsForAll(double seconds) {
  return Sign::ofWait({Kind::all, "barrier"}, seconds);
}

/// Signs of these ranks of the job, all from second 100.
WaitTable tableOf(const std::vector<Sign>& signs, const Ranks& job_ranks) {
  WaitTable table(job_ranks, 2.5, 0.0);
  for (std::size_t rank = 0; rank < signs.size(); ++rank)
    table.take(static_cast<int>(rank), signs[rank], 100.0);
  return table;
}

/// Signs of ranks 0, 1, ...
WaitTable tableOf(const std::vector<Sign>& signs) {
  Ranks all(signs.size());
  std::iota(all.begin(), all.end(), 0);
  return tableOf(signs, all);
}

} // namespace

TEST_CASE("Ranks that wait for one another are stuck, others are not", "[comm]") {
  CHECK(tableOf({waitsFor(1, 6), waitsFor(0, 6)}).stuck(100, 5) == Ranks{0, 1});
  CHECK(tableOf({waitsForAll(6), waitsFor(0, 6)}).stuck(100, 5) == Ranks{0, 1});
  CHECK(tableOf({waitsForAll(6), waitsForAll(6), waitsForAll(6)}).stuck(100, 5) == Ranks{0, 1, 2});
  // They have not waited long enough, or wait directly or indirectly for a rank that works.
  CHECK(tableOf({waitsFor(1, 6), waitsFor(0, 4)}).stuck(100, 5).empty());
  CHECK(tableOf({waitsFor(1, 6), Sign::ofWork()}).stuck(100, 5).empty());
  CHECK(tableOf({waitsFor(1, 3600), waitsFor(2, 3600), Sign::ofWork()}).stuck(100, 5).empty());
  CHECK(tableOf({waitsForAll(6), waitsForAll(6), Sign::ofWork()}).stuck(100, 5).empty());
  // A cycle, whatever the other ranks do; a rank that waits for the cycle is stuck as well.
  CHECK(tableOf({Sign::ofWork(), waitsFor(2, 6), waitsFor(1, 6), waitsFor(2, 6)}).stuck(100, 5) ==
        Ranks{1, 2, 3});
  CHECK(tableOf({waitsFor(5, 6)}).stuck(100, 5).empty()); // a rank outside the table
}

TEST_CASE("Who waits for either of two is stuck only where both are", "[comm]") {
  const auto waitsForEither = [](int one, int other) {
    const WaitedFor forward{Kind::message, "activations", one, 17},
        backward{Kind::message, "gradients", other, 12};
    return Sign::ofWait(WaitedFor::either(forward, backward), 6);
  };
  CHECK(tableOf({waitsFor(1, 6), waitsForEither(0, 2), Sign::ofWork()}).stuck(100, 5).empty());
  const WaitTable stuck = tableOf({waitsFor(1, 6), waitsForEither(0, 2), waitsFor(1, 6)});
  CHECK(stuck.stuck(100, 5) == Ranks{0, 1, 2});
  CHECK(
      stuck.text(100) ==
      "  rank 1: waiting 6 s for message 17 (activations) from rank 0 or message 12 (gradients) from rank 2\n"
      "  ranks 0,2: waiting 6 s for message 17 (activations) from rank 1");
}

TEST_CASE("Waits of a pipeline name the stage and how many microbatches are live", "[comm]") {
  WaitedFor gradient{Kind::message, "gradients", 1, 20};
  gradient.stage = 3;
  gradient.live = 2;
  WaitTable table = tableOf({Sign::ofWait(gradient, 6), waitsFor(0, 6)});
  CHECK(table.text(100) ==
        "  rank 1: waiting 6 s for message 17 (activations) from rank 0\n"
        "  rank 0: waiting 6 s for message 20 (gradients) from rank 1 (stage 3, live microbatches: 2)");
  table.take(1, waitsFor(0, 16), 110);
  CHECK(table.text(110).find("no response for 10 s; it was waiting for message 20 (gradients) from rank 1 "
                             "(stage 3, live microbatches: 2)") != std::string::npos);
}

TEST_CASE("Who waits for any rank is stuck only where all are", "[comm]") {
  const Sign any = Sign::ofWait({Kind::any, "agreement"}, 6);
  CHECK(tableOf({any, waitsFor(0, 6), Sign::ofWork()}).stuck(100, 5).empty());
  const WaitTable stuck = tableOf({any, waitsFor(0, 6), any});
  CHECK(stuck.stuck(100, 5) == Ranks{0, 1, 2});
  CHECK(stuck.text(100) == "  rank 1: waiting 6 s for message 17 (activations) from rank 0\n"
                           "  ranks 0,2: waiting 6 s for a message from any rank (agreement)");
}

TEST_CASE("Ranks left in a job keep their numbers", "[comm]") {
  const WaitTable table = tableOf({waitsFor(3, 6), Sign::ofWork(), waitsFor(0, 6)}, {0, 2, 3});
  CHECK(table.stuck(100, 5) == Ranks{0, 2}); // of the table
  CHECK(table.text(100) == "  rank 3: waiting 6 s for message 17 (activations) from rank 0\n"
                           "  rank 0: waiting 6 s for message 17 (activations) from rank 3\n"
                           "  rank 2: computing");
  CHECK(tableOf({waitsFor(1, 6), Sign::ofWork(), waitsFor(2, 6)}, {0, 2, 3}).stuck(100, 5).empty());
}

TEST_CASE("Old signs prove nothing", "[comm]") {
  WaitTable table = tableOf({waitsFor(1, 6), waitsFor(0, 6)});
  CHECK(table.stuck(102, 5) == Ranks{0, 1});
  CHECK(table.stuck(103, 5).empty());
  table.take(0, waitsFor(1, 9), 103);
  CHECK(table.stuck(103, 5).empty());
}

TEST_CASE("A silent rank counts where another waits", "[comm]") {
  WaitTable table = tableOf({waitsForAll(6), Sign::ofWork(), Sign::ofWork()});
  CHECK(table.silent(100, 10).empty());
  CHECK(table.silent(111, 10).empty()); // no rank has recently reported that it waits
  table.take(0, waitsForAll(17), 111);
  CHECK(table.silent(111, 10) == Ranks{1, 2});
  table.take(2, Sign::ofWork(), 111);
  CHECK(table.silent(111, 10) == Ranks{1});
  table.take(0, Sign::ofWork(), 111);
  CHECK(table.silent(111, 10).empty());
}

TEST_CASE("The table lists suspicious ranks first and groups ranks that are alike", "[comm]") {
  WaitTable table = tableOf({waitsForAll(6), waitsForAll(5), waitsFor(3, 6), Sign::ofWork(), Sign::ofWork(),
                             Sign::ofWait({Kind::taker, "activations", 2, 21}, 7)});
  CHECK(table.text(100) == "  rank 2: waiting 6 s for message 17 (activations) from rank 3\n"
                           "  rank 5: waiting 7 s for rank 2 to receive message 21 (activations)\n"
                           "  ranks 0-1: waiting 6 s for all other ranks (barrier)\n"
                           "  ranks 3-4: computing");
  table.take(0, waitsForAll(18), 112);
  CHECK(table.text(112, 3) ==
        "  ranks 3-4: no response for 12 s; it was computing\n"
        "  rank 1: no response for 12 s; it was waiting for all other ranks (barrier)\n"
        "  rank 2: no response for 12 s; it was waiting for message 17 (activations) from rank 3\n"
        "  and more");
}

} // namespace partita::test::comm_watchdog
