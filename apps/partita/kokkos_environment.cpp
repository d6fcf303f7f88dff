#include "kokkos_environment.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/threads.hpp"
#include "partita/core/memory.hpp"
#include "partita/core/types.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#ifdef KOKKOS_ENABLE_OPENMP
#include <omp.h>
#endif

namespace partita {

namespace {

constexpr int most_threads = 512;                         // of Kokkos' OpenMP, which counts no further
constexpr bool has_num_threads = KOKKOS_VERSION >= 30700; // before that it ignores the flag in silence

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

/// A whole number of at most nine digits; -1 where there is none.
int numberOf(const std::string& text) {
  const bool digits = text.find_first_not_of("0123456789") == std::string::npos;
  return digits && !text.empty() && text.size() < 10 ? std::stoi(text) : -1;
}

/// Threads that Kokkos would start; 0: it has to be told how many.
int askedThreads(const std::vector<std::string>& flags) {
  for (const std::string& flag : flags)
    if (countsThreads(nameOf(flag))) return numberOf(valueOf(flag));
  if (const char* text = std::getenv("KOKKOS_NUM_THREADS")) return numberOf(text);
#ifdef KOKKOS_ENABLE_OPENMP
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return omp_get_max_threads(); // whatever it has understood
#else
  if (const char* text = std::getenv("OMP_NUM_THREADS")) return numberOf(text);
#endif
  return 0;
}

void checkThreads(int threads) {
  if (threads >= 0 && threads <= most_threads) return;
  const std::string found = threads < 0 ? "no number" : std::to_string(threads);
  throw UserError("OMP_NUM_THREADS, KOKKOS_NUM_THREADS or --kokkos-num-threads: " + found +
                  " threads, of which Kokkos takes 1 to " + std::to_string(most_threads));
}

} // namespace

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
  static const std::array<const char*, 5> numbers{"threads", "num-threads", "numa", "device-id",
                                                  "skip-device"};
  const std::string name = nameOf(word);
  if (std::find(numbers.begin(), numbers.end(), name) == numbers.end()) return;
  const int value = numberOf(valueOf(word)), least = countsThreads(name) || name == "numa" ? 1 : 0;
  if (value < least || (countsThreads(name) && value > most_threads))
    throw UserError(
        "'" + word + "': a number is needed, " +
        (countsThreads(name) ? "1 to " + std::to_string(most_threads) : "at least " + std::to_string(least)));
}

std::vector<std::string> kokkosArguments(const Communicator& world, int argc, char** argv) {
  const std::string threads_flag = has_num_threads ? "--kokkos-num-threads=" : "--kokkos-threads=";
  std::vector<std::string> flags;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!isKokkosFlag(word)) continue;
    flags.push_back(countsThreads(nameOf(word)) ? threads_flag + valueOf(word) : word);
  }
  const int asked = askedThreads(flags), suitable = threadsForThisRank(world);
  collectively(world, [&] { checkThreads(asked); });
  if (asked == 0) flags.push_back(threads_flag + std::to_string(std::min(suitable, most_threads)));
  flags.insert(flags.begin(), argv[0]);
  return flags;
}

KokkosEnvironment::KokkosEnvironment(std::vector<std::string> words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  int count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  Kokkos::initialize(count, pointers.data());
  AllocationCounter::start();
}

KokkosEnvironment::~KokkosEnvironment() {
  Kokkos::finalize();
}

} // namespace partita
