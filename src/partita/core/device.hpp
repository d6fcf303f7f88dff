#pragma once

#include <string>

namespace partita {

/// What this process computes on.
struct Device {
  int index = -1;       ///< among the devices this process sees; -1: the host's processor
  int visible = 0;      ///< devices this process sees
  std::string name;     ///< "NVIDIA H200"; empty for the host
  std::string identity; ///< the same in every process that uses this device, on this node
  int threads = 1;      ///< of the host back end
};

/// The device of the default execution space; Kokkos runs.
Device ownDevice();

/// Name of this node.
std::string hostName();

} // namespace partita
