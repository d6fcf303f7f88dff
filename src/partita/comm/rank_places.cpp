#include "partita/comm/rank_places.hpp"

#include "partita/comm/lasting.hpp"
#include "partita/comm/wait.hpp"
#include "partita/config/text.hpp"
#include "partita/core/log.hpp"
#include "partita/core/types.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

namespace partita {

namespace {

/// The cores on which this process may run: those of all its threads, because OpenMP may have bound each of
/// them to one core. If the system does not say, the first ones.
cpu_set_t ownCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  std::error_code none;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", none)) {
    cpu_set_t of_thread;
    CPU_ZERO(&of_thread);
    const int thread = std::atoi(task.path().filename().c_str());
    if (sched_getaffinity(thread, sizeof of_thread, &of_thread) == 0) CPU_OR(&cores, &cores, &of_thread);
  }
  if (CPU_COUNT(&cores) > 0) return cores;
  const unsigned known = std::max(1U, std::thread::hardware_concurrency());
  for (unsigned core = 0; core < known; ++core) CPU_SET(core, &cores);
  return cores;
}

/// The shares of the ranks of a node, in order. Collective.
std::vector<CoreShare> sharesOfRanks(const Communicator& node) {
  static_assert(std::is_trivially_copyable<CoreShare>::value, "shares travel as bytes");
  const CoreShare mine{ownCores(), coresOfGroup()};
  std::vector<CoreShare> all(node.size());
  PARTITA_MPI(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, node.get()));
  return all;
}

cpu_set_t coresOfAny(const std::vector<CoreShare>& ranks) {
  cpu_set_t together;
  CPU_ZERO(&together);
  for (const CoreShare& rank : ranks) CPU_OR(&together, &together, &rank.cores);
  return together;
}

/// Whole cores, at least one, that a limited group has time for.
std::int64_t wholeCores(const CoreQuota& quota) {
  constexpr double most = CPU_SETSIZE;
  return static_cast<std::int64_t>(std::max(1.0, std::min(most, std::floor(quota.cores))));
}

/// So many of the given cores, but no more than the groups of the ranks together have time for.
std::int64_t withinQuotas(std::int64_t cores, const std::vector<CoreShare>& ranks) {
  std::int64_t sum = 0;
  for (auto rank = ranks.begin(); rank != ranks.end(); ++rank) {
    if (!rank->quota.limits()) return cores;
    const bool counted_before = std::any_of(
        ranks.begin(), rank, [&](const CoreShare& other) { return other.quota.isOf(rank->quota); });
    if (!counted_before) sum += wholeCores(rank->quota);
  }
  return std::min(cores, sum);
}

/// The cores of the node that the job may use. When a thread asks for all, the kernel leaves out those that
/// the batch system withholds by a control group. A batch system that only binds withholds none.
cpu_set_t coresOfJob() {
  cpu_set_t own, all;
  CPU_ZERO(&all);
  if (sched_getaffinity(0, sizeof own, &own) != 0) return all;
  for (int core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &all);
  if (sched_setaffinity(0, sizeof all, &all) != 0) return own;
  sched_getaffinity(0, sizeof all, &all);
  sched_setaffinity(0, sizeof own, &own);
  return all;
}

bool hasValue(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr && *text != '\0';
}

/// Two hardware threads of a core count once.
std::int64_t countCores(const cpu_set_t& threads) {
  std::set<std::string> cores;
  for (int thread = 0; thread < CPU_SETSIZE; ++thread) {
    if (!CPU_ISSET(thread, &threads)) continue;
    const std::string number = std::to_string(thread);
    std::ifstream file("/sys/devices/system/cpu/cpu" + number + "/topology/thread_siblings_list");
    std::string siblings;
    cores.insert(std::getline(file, siblings) ? siblings : number);
  }
  return static_cast<std::int64_t>(cores.size());
}

} // namespace

int threadsOf(const std::vector<CoreShare>& ranks, std::size_t rank) {
  const CoreShare& mine = ranks[rank];
  int on_cores = 0, in_group = 0; // ranks, with this one
  for (const CoreShare& other : ranks) {
    cpu_set_t common;
    CPU_AND(&common, &mine.cores, &other.cores);
    on_cores += CPU_COUNT(&common) > 0 ? 1 : 0;
    in_group += other.quota.isOf(mine.quota) ? 1 : 0;
  }
  int threads = CPU_COUNT(&mine.cores) / std::max(1, on_cores);
  if (mine.quota.limits()) threads = std::min(threads, static_cast<int>(wholeCores(mine.quota)) / in_group);
  return std::max(1, threads);
}

std::int64_t coresOf(const std::vector<CoreShare>& ranks) {
  const cpu_set_t together = coresOfAny(ranks);
  return withinQuotas(CPU_COUNT(&together), ranks);
}

int threadsForThisRank(const Communicator& world) {
  const Communicator node = world.node();
  return threadsOf(sharesOfRanks(node), static_cast<std::size_t>(node.rank()));
}

std::int64_t ranksAtOnce(const Communicator& world) {
  const Communicator node = world.node();
  const Device own = ownDevice();
  const std::int64_t cores = coresOf(sharesOfRanks(node)),
                     threads = node.total(own.index < 0 ? own.threads : 0);
  constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();
  const std::int64_t least =
      world.minimum(threads <= cores ? all : std::max<std::int64_t>(1, node.size() * cores / threads));
  return least == all ? 0 : least;
}

bool isOversubscribed(const Communicator& world) {
  return ranksAtOnce(world) > 0;
}

std::string bindingAdvice(const Communicator& world) {
  const std::vector<CoreShare> ranks = sharesOfRanks(world.node());
  const bool chosen = hasValue("OMP_NUM_THREADS") || hasValue("KOKKOS_NUM_THREADS"),
             counts = hosts_use_threads && !chosen; // reads a file for each core
  const std::int64_t bound = counts ? countCores(coresOfAny(ranks)) : 0,
                     cores = counts ? withinQuotas(countCores(coresOfJob()), ranks) : 0;
  const bool wasted = bound > 0 && 2 * bound <= cores;
  const std::int64_t first = world.minimum(wasted ? world.rank() : world.size());
  if (first == world.size()) return "";
  const std::int64_t shown_bound = world.total(first == world.rank() ? bound : 0),
                     shown_cores = world.total(first == world.rank() ? cores : 0);
  return "the launcher binds the ranks of a node to " + std::to_string(shown_bound) + " of the " +
         std::to_string(shown_cores) +
         " cores available to them; if the job may use all of them, start more ranks, give each more cores "
         "(mpirun --map-by slot:PE=N, srun --cpus-per-task=N), or do not bind them (--bind-to none)";
}

std::optional<int> launcherLocalRank() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                           "PALS_LOCAL_RANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID", "FLUX_TASK_LOCAL_ID"}) {
    const char* const text = std::getenv(name);
    if (text == nullptr) continue;
    char* end = nullptr;
    const long number = std::strtol(text, &end, 10);
    if (end != text && *end == '\0' && number >= 0 && number < std::numeric_limits<int>::max())
      return static_cast<int>(number);
  }
  return {};
}

namespace {

/// A place as it is sent.
struct PlaceRecord {
  std::array<char, 64> host{}, name{}, identity{}, address{};
  int node = 0, local_rank = 0, index = -1, visible = 0, threads = 1;
};
static_assert(std::is_trivially_copyable<PlaceRecord>::value, "places travel as bytes");

void copyText(std::array<char, 64>& to, const std::string& text) {
  std::snprintf(to.data(), to.size(), "%s", text.c_str());
}

PlaceRecord ownRecord(const Communicator& world) {
  const Communicator node = world.node();
  const Device device = ownDevice();
  PlaceRecord record;
  copyText(record.host, hostName());
  copyText(record.name, device.name);
  copyText(record.identity, device.identity);
  copyText(record.address, device.address);
  record.node = static_cast<int>(node.minimum(world.rank()));
  record.local_rank = node.rank();
  record.index = device.index;
  record.visible = device.visible;
  record.threads = device.threads;
  return record;
}

RankPlace placeOf(const PlaceRecord& record) {
  return {record.host.data(),
          record.node,
          record.local_rank,
          {record.index, record.visible, record.name.data(), record.identity.data(), record.threads,
           record.address.data()}};
}

bool onHost(const RankPlace& place) {
  return place.device.index < 0;
}

std::string deviceText(const RankPlace& place) {
  return onHost(place) ? "host (" + counted(place.device.threads, "thread") + ")" : place.device.name;
}

/// "0-3", or one number if all are the same.
std::string numbersOf(const std::vector<RankPlace>& places, const std::vector<int>& ranks,
                      int (*number)(const RankPlace&)) {
  std::vector<int> numbers;
  numbers.reserve(ranks.size());
  for (const int rank : ranks) numbers.push_back(number(places[rank]));
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return (numbers.size() == 1 ? " " : "s ") + formatRanges(numbers);
}

std::string lineOf(const std::vector<RankPlace>& places, const std::vector<int>& ranks) {
  const RankPlace& first = places[ranks.front()];
  std::string line = formatRanks(ranks) + ": " + first.host + ", local rank" +
                     numbersOf(places, ranks, [](const RankPlace& place) { return place.local_rank; });
  if (onHost(first)) {
    return line + ", host, " + counted(first.device.threads, "thread") + (ranks.size() > 1 ? " each" : "");
  }
  return line + ", device" +
         numbersOf(places, ranks, [](const RankPlace& place) { return place.device.index; }) + ", " +
         first.device.name;
}

} // namespace

std::vector<RankPlace> gatherPlaces(const Communicator& world) {
  const Lasting<PlaceRecord> own(ownRecord(world));
  const Lasting<std::vector<PlaceRecord>> records(
      std::vector<PlaceRecord>(world.rank() == 0 ? world.size() : 0));
  Request request;
  PARTITA_MPI(MPI_Igather(&*own, sizeof *own, MPI_BYTE, records->data(), sizeof *own, MPI_BYTE, 0,
                          world.get(), request.start({WaitedFor::Kind::all, "places of ranks"})));
  request.wait();
  std::vector<RankPlace> places;
  places.reserve(records->size());
  for (const PlaceRecord& record : *records) places.push_back(placeOf(record));
  return places;
}

std::vector<std::string> placeLines(const std::vector<RankPlace>& places, std::size_t most) {
  std::map<std::pair<int, std::string>, std::size_t> group_of; // node and device
  std::vector<std::vector<int>> groups;                        // in order of their first rank
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const auto [found, is_new] =
        group_of.try_emplace({places[rank].node, deviceText(places[rank])}, groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(static_cast<int>(rank));
  }
  std::vector<std::string> lines;
  std::size_t listed = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (lines.size() + 1 == most && i + 1 < groups.size()) {
      lines.push_back("and " + counted(static_cast<std::int64_t>(places.size() - listed), "more rank"));
      break;
    }
    lines.push_back(lineOf(places, groups[i]));
    listed += groups[i].size();
  }
  return lines;
}

std::vector<std::string> placeWarnings(const std::vector<RankPlace>& places) {
  struct Node {
    std::string host;
    std::map<std::string, std::vector<int>> ranks_of; // by identity of the device
    int visible = 0;
  };
  std::map<int, Node> nodes;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const RankPlace& place = places[rank];
    if (onHost(place)) continue;
    Node& node = nodes[place.node];
    node.host = place.host;
    node.ranks_of[place.device.identity].push_back(static_cast<int>(rank));
    node.visible = std::max(node.visible, place.device.visible);
  }
  std::vector<std::string> warnings;
  for (const auto& [lowest, node] : nodes) {
    for (const auto& [identity, ranks] : node.ranks_of) {
      if (ranks.size() == 1) continue;
      warnings.push_back(formatRanks(ranks) + " share one device of " + node.host +
                         "; start at most one rank per device");
      break;
    }
    const int used = static_cast<int>(node.ranks_of.size());
    if (used < node.visible) {
      warnings.push_back(node.host + " has " + std::to_string(node.visible) + " devices, but " +
                         std::to_string(node.visible - used) + " of them are idle");
    }
  }
  return warnings;
}

bool devicesDiffer(const std::vector<RankPlace>& places) {
  std::set<std::pair<int, std::string>> seen; // node and address
  return std::all_of(places.begin(), places.end(), [&](const RankPlace& place) {
    return !onHost(place) && seen.emplace(place.node, place.device.address).second;
  });
}

std::string summarisePlaces(const std::vector<RankPlace>& places) {
  std::map<std::string, int> count;
  std::set<int> nodes;
  for (const RankPlace& place : places) {
    ++count[deviceText(place)];
    nodes.insert(place.node);
  }
  std::string text;
  for (const auto& [device, number] : count) {
    text += (text.empty() ? "" : ", ") + std::to_string(number) + " x " + device;
  }
  return text + " on " + counted(static_cast<std::int64_t>(nodes.size()), "node");
}

} // namespace partita
