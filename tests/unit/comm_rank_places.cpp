#include "partita/comm/rank_places.hpp"
#include "partita/core/types.hpp"

#include <cstdlib>
#include <map>

#include "support/catch.hpp"

namespace partita::test::comm_rank_places {

namespace {

using Lines = std::vector<std::string>;

/// Adds a GPU node with the ranks starting at `first`, each on the device given by `device_of`.
void addGpuNode(std::vector<RankPlace>& places, const std::string& host, int visible,
                const std::vector<int>& device_of) {
  const int first = static_cast<int>(places.size());
  for (std::size_t i = 0; i < device_of.size(); ++i) {
    const Device device{device_of[i], visible, "NVIDIA A100", host + std::to_string(device_of[i]), 1, ""};
    places.push_back({host, first, static_cast<int>(i), device});
  }
}

RankPlace hostPlace(const std::string& host, int node, int local_rank, int threads) {
  return {host, node, local_rank, {-1, 0, "", "", threads, ""}};
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

TEST_CASE("Ranks have devices of their own unless two share one, or the parts of one, or a host", "[comm]") {
  std::vector<RankPlace> places;
  addGpuNode(places, "nid1", 2, {0, 1});
  addGpuNode(places, "nid2", 2, {0, 1});
  for (RankPlace& place : places)
    place.device.address = std::to_string(place.device.index); // on each node alike
  CHECK(devicesDiffer(places));
  places[1].device.address = places[0].device.address; // its identity remains another one
  CHECK(!devicesDiffer(places));
  places.erase(places.begin());
  CHECK(devicesDiffer(places));
  places.push_back(hostPlace("nid2", 2, 2, 8));
  CHECK(!devicesDiffer(places));
}

namespace {

/// The variables of launchers, which the object empties for its life.
class LauncherVariables {
 public:
  LauncherVariables() {
    for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                             "PALS_LOCAL_RANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID", "FLUX_TASK_LOCAL_ID"}) {
      if (const char* const text = std::getenv(name)) _before[name] = text;
      unsetenv(name);
      _names.emplace_back(name);
    }
  }
  ~LauncherVariables() {
    for (const std::string& name : _names) unsetenv(name.c_str());
    for (const auto& [name, text] : _before) setenv(name.c_str(), text.c_str(), 1);
  }
  LauncherVariables(const LauncherVariables&) = delete;
  LauncherVariables& operator=(const LauncherVariables&) = delete;

 private:
  Lines _names;
  std::map<std::string, std::string> _before;
};

} // namespace

TEST_CASE("The launcher tells the place on the node before MPI starts", "[comm]") {
  const LauncherVariables variables;
  CHECK_FALSE(launcherLocalRank().has_value());
  setenv("FLUX_TASK_LOCAL_ID", "2", 1);
  CHECK(launcherLocalRank() == 2);
  setenv("SLURM_LOCALID", "3", 1);
  CHECK(launcherLocalRank() == 3);
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1); // mpirun inside a job of Slurm
  CHECK(launcherLocalRank() == 1);
  for (const char* nonsense : {"", "x", "-1", "2x", "99999999999"}) {
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", nonsense, 1);
    CHECK(launcherLocalRank() == 3);
  }
  if (device_is_host) CHECK(useDevice(1) == -1);
}

namespace {

/// A rank that may run on these cores; `group` 0: without a limit.
CoreShare share(int first_core, int cores, double quota = 0.0, std::uint64_t group = 0) {
  CoreShare rank;
  CPU_ZERO(&rank.cores);
  for (int core = first_core; core < first_core + cores; ++core) CPU_SET(core, &rank.cores);
  if (group > 0) rank.quota = {quota, 1, group};
  return rank;
}

} // namespace

TEST_CASE("Ranks divide the cores that they share", "[comm]") {
  const std::vector<CoreShare> shared(4, share(0, 16));
  CHECK(threadsOf(shared, 0) == 4);
  CHECK(coresOf(shared) == 16);
  const std::vector<CoreShare> mixed{share(0, 4), share(4, 8), share(4, 8)};
  CHECK(threadsOf(mixed, 0) == 4);
  CHECK(threadsOf(mixed, 1) == 4);
  CHECK(coresOf(mixed) == 12);
  CHECK(threadsOf(std::vector<CoreShare>(3, share(0, 2)), 2) == 1);
}

TEST_CASE("Ranks divide the processor time of their own container only", "[comm]") {
  const std::vector<CoreShare> in_one(4, share(0, 16, 8.0, 1));
  CHECK(threadsOf(in_one, 0) == 2);
  CHECK(coresOf(in_one) == 8);
  std::vector<CoreShare> in_each;
  for (std::uint64_t group = 1; group <= 4; ++group) in_each.push_back(share(0, 64, 4.0, group));
  for (std::size_t rank = 0; rank < 4; ++rank) CHECK(threadsOf(in_each, rank) == 4);
  CHECK(coresOf(in_each) == 16);
  in_each[3] = share(0, 64);
  CHECK(threadsOf(in_each, 0) == 4);
  CHECK(threadsOf(in_each, 3) == 16);
  CHECK(coresOf(in_each) == 64);
}

TEST_CASE("Part of a core is not a thread, but each rank has one", "[comm]") {
  CHECK(threadsOf({share(0, 8, 2.9, 1)}, 0) == 2);
  CHECK(coresOf({share(0, 8, 2.9, 1)}) == 2);
  CHECK(threadsOf({share(0, 8, 0.5, 1)}, 0) == 1);
  CHECK(coresOf({share(0, 8, 0.5, 1)}) == 1);
  CHECK(threadsOf({share(0, 2, 1e9, 1)}, 0) == 2);
  CHECK(threadsOf(std::vector<CoreShare>(4, share(0, 8, 2.0, 1)), 0) == 1);
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
