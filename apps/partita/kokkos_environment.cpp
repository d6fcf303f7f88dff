#include "kokkos_environment.hpp"

#include "partita/comm/threads.hpp"
#include "partita/core/memory.hpp"
#include "partita/core/types.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace partita {

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
  const std::string name = word.substr(9, word.find('=') - 9);
  return std::find(flags.begin(), flags.end(), name) != flags.end();
}

std::vector<std::string> kokkosArguments(const Communicator& world, int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  bool said = std::getenv("OMP_NUM_THREADS") != nullptr || std::getenv("KOKKOS_NUM_THREADS") != nullptr;
  for (const std::string& word : words) said = said || word.find("threads=") != std::string::npos;
  const int threads = threadsForThisRank(world);
  const char* const flag = KOKKOS_VERSION >= 30700 ? "--kokkos-num-threads=" : "--kokkos-threads=";
  if (!said) words.push_back(flag + std::to_string(threads));
  return words;
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
