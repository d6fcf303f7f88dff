#pragma once

#include "partita/comm/mpi.hpp"

#include <string>
#include <vector>

namespace partita {

/// Returns whether Kokkos 3.4 to 5 accepts this flag; Kokkos itself reports few of the flags that
/// it does not know.
bool isKokkosFlag(const std::string& word);

/// Throws UserError if the flag needs a number and has none that Kokkos can use.
void checkKokkosFlag(const std::string& word);

/// Makes the device of this rank current. Call before MPI starts: a library that reads device memory may open
/// the current device then, and keep it. Does nothing if the launcher does not tell the rank's place on its
/// node, or if a flag or variable of Kokkos chooses the device.
void chooseDevice(int argc, char** argv);

/// The command line for Kokkos: its own flags, under the names that this Kokkos version knows, and
/// a number of threads and a device if neither the flags nor the environment set them. Throws
/// AgreedError if the environment asks for a number of threads that Kokkos cannot use or that
/// contradicts a flag. Collective.
std::vector<std::string> kokkosArguments(const Communicator& world, int argc, char** argv);

/// Keeps Kokkos running for the life of the object, with the memory counters. Its threads take subnormal
/// numbers for zero.
class KokkosEnvironment {
 public:
  explicit KokkosEnvironment(std::vector<std::string> words);
  ~KokkosEnvironment();
  KokkosEnvironment(const KokkosEnvironment&) = delete;
  KokkosEnvironment& operator=(const KokkosEnvironment&) = delete;
};

} // namespace partita
