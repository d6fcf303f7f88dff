#include "partita/comm/rank_places.hpp"
#include "partita/core/types.hpp"

#include "support/catch.hpp"

namespace partita::test::comm_rank_places {

namespace {

using Lines = std::vector<std::string>;

/// Adds a GPU node with the ranks starting at `first`, each on the device given by `device_of`.
void addGpuNode(std::vector<RankPlace>& places, const std::string& host, int visible,
                const std::vector<int>& device_of) {
  const int first = static_cast<int>(places.size());
  for (std::size_t i = 0; i < device_of.size(); ++i) {
    const Device device{device_of[i], visible, "NVIDIA A100", host + std::to_string(device_of[i]), 1};
    places.push_back({host, first, static_cast<int>(i), device});
  }
}

RankPlace hostPlace(const std::string& host, int node, int local_rank, int threads) {
  return {host, node, local_rank, {-1, 0, "", "", threads}};
}

} // namespace

TEST_CASE("The map shows ranks that are alike on one line", "[comm]") {
  std::vector<RankPlace> places;
  addGpuNode(places, "nid1", 4, {0, 1, 2, 3});
  places.push_back(hostPlace("nid2", 4, 0, 8));
  places.push_back(hostPlace("nid2", 4, 1, 8));
  places.push_back(hostPlace("nid2", 4, 2, 1));
  CHECK(placeLines(places) == Lines{"ranks 0-3: nid1, local ranks 0-3, devices 0-3, NVIDIA A100",
                                    "ranks 4-5: nid2, local ranks 0-1, host, 8 threads each",
                                    "rank 6: nid2, local rank 2, host, 1 thread"});
  CHECK(placeLines(places, 2) ==
        Lines{"ranks 0-3: nid1, local ranks 0-3, devices 0-3, NVIDIA A100", "and 3 more ranks"});
  CHECK(summarisePlaces(places) == "4 x NVIDIA A100, 1 x host (1 thread), 2 x host (8 threads) on 2 nodes");
  CHECK(placeWarnings(places).empty());
}

TEST_CASE("Ranks placed on nodes in turn are collected", "[comm]") {
  std::vector<RankPlace> places;
  for (int rank = 0; rank < 4; ++rank) places.push_back(hostPlace("node", rank % 2, rank / 2, 1));
  CHECK(placeLines(places) == Lines{"ranks 0,2: node, local ranks 0-1, host, 1 thread each",
                                    "ranks 1,3: node, local ranks 0-1, host, 1 thread each"});
}

TEST_CASE("The run warns about shared and idle devices", "[comm]") {
  std::vector<RankPlace> places;
  addGpuNode(places, "nid1", 2, {0, 1, 0, 1});
  addGpuNode(places, "nid2", 4, {0, 1});
  addGpuNode(places, "nid3", 1, {0});
  const Lines warnings = placeWarnings(places);
  REQUIRE(warnings.size() == 2);
  CHECK_THAT(warnings[0], Catch::Matchers::ContainsSubstring("ranks 0,2 share one device of nid1"));
  CHECK(warnings[1] == "nid2 has 4 devices, but 2 of them are idle");
}

TEST_CASE("This process finds its own place", "[comm]") {
  const auto places = gatherPlaces(Communicator::world());
  REQUIRE(places.size() == 1);
  CHECK(places[0].host == hostName().substr(0, 63));
  CHECK(places[0].local_rank == 0);
  CHECK((places[0].device.index < 0) == device_is_host);
  CHECK(places[0].device.threads >= 1);
}

} // namespace partita::test::comm_rank_places
