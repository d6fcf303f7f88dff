#include "kokkos_environment.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/rank_places.hpp"
#include "partita/core/memory.hpp"
#include "partita/core/subnormals.hpp"
#include "partita/core/types.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>

#ifdef KOKKOS_ENABLE_OPENMP
#include <omp.h>
#endif

namespace partita {

namespace {

constexpr int most_threads = 512;                         // limit of Kokkos' OpenMP backend
constexpr bool has_num_threads = KOKKOS_VERSION >= 30700; // older versions ignore the flag silently

/// "threads" of "--kokkos-threads=4".
std::string nameOf(const std::string& word) {
  constexpr std::size_t prefix = 9; // "--kokkos-"
  return word.substr(prefix, word.find('=') - prefix);
}

std::string valueOf(const std::string& word) {
  const std::size_t equals = word.find('=');
  return equals == std::string::npos ? "" : word.substr(equals + 1);
}

bool countsThreads(const std::string& name) {
  return name == "threads" || name == "num-threads";
}

/// A whole number of at most nine digits; -1 for any other text.
int numberOf(const std::string& text) {
  const bool digits = text.find_first_not_of("0123456789") == std::string::npos;
  return digits && !text.empty() && text.size() < 10 ? std::stoi(text) : -1;
}

[[noreturn]] void failThreads(const std::string& variable, const std::string& value) {
  throw UserError(variable + "=" + value + " is not a valid number of threads; Kokkos accepts 1 to " +
                  std::to_string(most_threads));
}

/// Kokkos reads its own variable, and requires it to agree with the flag.
void checkVariable(const std::vector<std::string>& flags) {
  const char* const text = std::getenv("KOKKOS_NUM_THREADS");
  if (text == nullptr) return;
  const int threads = numberOf(text);
  if (threads < 1 || threads > most_threads) failThreads("KOKKOS_NUM_THREADS", text);
  for (const std::string& flag : flags)
    if (countsThreads(nameOf(flag)) && numberOf(valueOf(flag)) != threads)
      throw UserError("KOKKOS_NUM_THREADS=" + std::string(text) + " contradicts '" + flag + "'");
}

#ifdef KOKKOS_ENABLE_OPENMP
/// Returns whether OpenMP uses this value of OMP_NUM_THREADS: a positive number, or several with commas
/// between them, for nested regions. It ignores any other value, and then takes all cores.
bool isThreadList(const char* text) {
  for (;;) {
    char* end = nullptr;
    errno = 0;
    const long threads = std::strtol(text, &end, 10);
    if (end == text || errno != 0 || threads < 1) return false;
    while (*end == ' ') ++end;
    if (*end == '\0') return true;
    if (*end != ',') return false;
    text = end + 1;
  }
}
#endif

/// Returns whether the user has set the number of threads.
bool setsThreads(const std::vector<std::string>& flags) {
  const bool flag = std::any_of(flags.begin(), flags.end(),
                                [](const std::string& word) { return countsThreads(nameOf(word)); });
#ifdef KOKKOS_ENABLE_OPENMP
  const char* const openmp = std::getenv("OMP_NUM_THREADS");
  const bool openmp_set = openmp != nullptr && isThreadList(openmp);
  if (openmp_set && !flag && omp_get_max_threads() > most_threads) failThreads("OMP_NUM_THREADS", openmp);
  if (openmp_set) return true;
#endif
  return flag || std::getenv("KOKKOS_NUM_THREADS") != nullptr;
}

int chosen_device = -1;

/// Has the user left the choice of devices to us?
bool choosesDevice(int argc, char** argv) {
  for (const char* variable :
       {"KOKKOS_DEVICE_ID", "KOKKOS_NUM_DEVICES", "KOKKOS_MAP_DEVICE_ID_BY", "KOKKOS_VISIBLE_DEVICES"})
    if (std::getenv(variable) != nullptr) return false;
  return std::none_of(argv + 1, argv + argc, [](const std::string& word) {
    return isKokkosFlag(word) && nameOf(word).find("device") != std::string::npos;
  });
}

} // namespace

void chooseDevice(int argc, char** argv) {
  if (!choosesDevice(argc, argv)) return;
  if (const std::optional<int> local_rank = launcherLocalRank()) chosen_device = useDevice(*local_rank);
}

bool isKokkosFlag(const std::string& word) {
  static const std::array<const char*, 16> flags{"help",
                                                 "threads",
                                                 "num-threads",
                                                 "numa",
                                                 "device-id",
                                                 "num-devices",
                                                 "ndevices",
                                                 "skip-device",
                                                 "disable-warnings",
                                                 "print-configuration",
                                                 "tune-internals",
                                                 "tools-libs",
                                                 "tools-library",
                                                 "tools-args",
                                                 "tools-help",
                                                 "map-device-id-by"};
  if (word.rfind("--kokkos-", 0) != 0) return false;
  return std::find(flags.begin(), flags.end(), nameOf(word)) != flags.end();
}

void checkKokkosFlag(const std::string& word) {
  static const std::array<const char*, 3> counts{"numa", "num-devices", "ndevices"},
      ids{"device-id", "skip-device", ""};
  const std::string name = nameOf(word), value = valueOf(word);
  const auto is_one_of = [&](const auto& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const bool threads = countsThreads(name), counted = threads || is_one_of(counts);
  if (!counted && !is_one_of(ids)) return;
  const bool devices = name == "num-devices" || name == "ndevices"; // may have the form N,M
  const int number = numberOf(devices ? value.substr(0, value.find(',')) : value);
  const std::size_t comma = value.find(',');
  const bool second = !devices || comma == std::string::npos || numberOf(value.substr(comma + 1)) >= 0;
  if (number >= (counted ? 1 : 0) && second && (!threads || number <= most_threads)) return;
  throw UserError("'" + word + "': expected a number, " +
                  (threads   ? "1 to " + std::to_string(most_threads)
                   : counted ? "at least 1"
                             : "at least 0"));
}

std::vector<std::string> kokkosArguments(const Communicator& world, int argc, char** argv) {
  const std::string threads_flag = has_num_threads ? "--kokkos-num-threads=" : "--kokkos-threads=";
  std::vector<std::string> flags;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!isKokkosFlag(word)) continue;
    flags.push_back(countsThreads(nameOf(word)) ? threads_flag + valueOf(word) : word);
  }
  bool threads_set = false;
  collectively(world, [&] {
    checkVariable(flags);
    threads_set = setsThreads(flags);
  });
  const int suitable = std::min(threadsForThisRank(world), most_threads);
  if (!threads_set) flags.push_back(threads_flag + std::to_string(suitable));
  const int local_rank = world.node().rank(); // collective, even if the launcher has told it
  if (chosen_device < 0 && choosesDevice(argc, argv)) chosen_device = useDevice(local_rank);
  if (chosen_device >= 0) flags.push_back("--kokkos-device-id=" + std::to_string(chosen_device));
  flags.insert(flags.begin(), argv[0]);
  return flags;
}

KokkosEnvironment::KokkosEnvironment(std::vector<std::string> words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  int count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  flushSubnormals(); // before Kokkos starts threads, which inherit it
  Kokkos::initialize(count, pointers.data());
  AllocationCounter::start();
}

KokkosEnvironment::~KokkosEnvironment() {
  Kokkos::finalize();
}

} // namespace partita
