#include "partita/comm/link.hpp"

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::comm_link {

TEST_CASE("Links are described in one line", "[comm]") {
  const LinkModel model = parseLinkModel("latency=2e-3,bandwidth=1e8,delay=0.02,seed=7,node=2");
  CHECK(model.latency == 2e-3);
  CHECK(model.bandwidth == 1e8);
  CHECK(model.delay == 0.02);
  CHECK(model.seed == 7);
  CHECK(model.node == 2);
  CHECK(model.slow());
  CHECK_FALSE(parseLinkModel("").slow());
  CHECK_FALSE(parseLinkModel("delay=1").slow());
  CHECK(parseLinkModel("seed=9007199254740992").seed == std::int64_t{1} << 53);
  for (const char* wrong :
       {"latency", "latency=", "latency=-1", "latency=1s", "speed=3", "bandwidth=inf", "seed=-1", "seed=1.5",
        "seed=9007199254740994", "seed=1e30", "node=0.5", "node=1e19", "node=nan"}) {
    CHECK(messageOf([&] { parseLinkModel(wrong); }) ==
          "PARTITA_LINKS: '" + std::string(wrong) +
              "' is not one of latency=S, bandwidth=B, delay=S, seed=N, node=N (N is a whole number up to "
              "2^53)");
  }
}

TEST_CASE("Messages follow one another on a slow link", "[comm]") {
  const LinkModel before = linkModel();
  setLinkModel({0.25, 1.0, 0.0, 1}); // the first message is under way for longer than a machine ever halts
  SlowLink link;
  const auto between = [](double begin, double found, double end, double seconds) {
    CHECK(found >= begin + seconds - 1e-9);
    CHECK(found <= end + seconds + 1e-9);
  };
  const double begin = linkSeconds(), first = link.arrival(100), end = linkSeconds();
  const double second = link.arrival(500);
  between(begin, first, end, 100.25);
  CHECK(second == Approx(first + 500.0).margin(1e-9)); // it started after the first one
  SlowLink ring;
  const double ring_begin = linkSeconds(), ring_end_of_sum = ring.summed(400, 4), ring_end = linkSeconds();
  between(ring_begin, ring_end_of_sum, ring_end, 600.0 + 6 * 0.25);
  setLinkModel(before);
}

} // namespace partita::test::comm_link
