#pragma once

#include "partita/comm/mpi.hpp"

#include <string>
#include <vector>

namespace partita {

/// Whether Kokkos 3.4 to 5 takes this flag itself; it only murmurs about others.
bool isKokkosFlag(const std::string& word);

/// Throws UserError where the flag wants a number and has none that Kokkos survives.
void checkKokkosFlag(const std::string& word);

/// The command line for Kokkos: its own flags, under the names that this Kokkos knows, and a number of
/// threads where neither they nor the environment say one. Throws AgreedError where there would be too many.
/// Collective.
std::vector<std::string> kokkosArguments(const Communicator& world, int argc, char** argv);

/// Kokkos on for the life of the object, with the memory counters.
class KokkosEnvironment {
 public:
  explicit KokkosEnvironment(std::vector<std::string> words);
  ~KokkosEnvironment();
  KokkosEnvironment(const KokkosEnvironment&) = delete;
  KokkosEnvironment& operator=(const KokkosEnvironment&) = delete;
};

} // namespace partita
