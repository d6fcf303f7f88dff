#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace partita {

/// Properties of this build, recorded at every build rather than when CMake is configured.

std::string versionString();  ///< "1.2.3"
std::string gitHash();        ///< "abc1234", "abc1234-dirty" when tracked files had changes, or "unknown"
std::string compilerString(); ///< "GNU 12.2.0"
std::string buildType();      ///< CMake's build type, e.g. "Release"
std::string kokkosKernelsVersion(); ///< "3.4.01", as its CMake package says

/// "1.2.3" of 10203, as Kokkos and NVIDIA's libraries number their versions.
std::string versionText(std::size_t number);

/// The device this process computes on.
struct Device {
  int index = -1;       ///< among the devices this process sees; -1: the host's processor
  int visible = 0;      ///< devices this process sees
  std::string name;     ///< "NVIDIA H200"; empty for the host
  std::string identity; ///< the same in every process on this node that uses this device
  int threads = 1;      ///< of the host back end
  std::string address;  ///< on the node's bus; the parts of a divided device share it
};

/// The device of the default execution space. Kokkos must be initialised.
Device ownDevice();

/// Makes device number `local_rank`, modulo the number of visible devices, that of this process,
/// and returns its number. Does nothing and returns -1 if there are no devices. Needs neither
/// Kokkos nor MPI.
int useDevice(int local_rank);

/// Name of this node.
std::string hostName();

/// Name of this node's processor, and which of the instructions that matter here it has:
/// "Intel(R) Xeon(R) Processor (avx2, avx512f, amx_bf16)". "unknown" if the system does not tell.
std::string processorName();

/// Has this node's processor instructions that multiply bf16 numbers faster than floats? Intel's cores since
/// Sapphire Rapids do it by AMX, which virtual machines may hide: their AVX-512 has half the rate of floats.
bool multipliesBf16Fast();
/// The same for a vendor and flags as in /proc/cpuinfo.
bool multipliesBf16Fast(const std::string& vendor, const std::string& flags);

/// What to do about a program that was compiled without instructions that double its speed and that the
/// processor has; empty if there are none.
std::string compilerAdvice();

/// The BLAS library used for the matrix products.
struct BlasInfo {
  std::string library; ///< "OpenBLAS 0.3.21", "MKL ...", "unknown"
  std::string kernel;  ///< processor its kernels were made for, if the library reports it: "SkylakeX"
  std::string advice;  ///< how to get a faster library or kernel; empty if there is none
};
BlasInfo blasInfo();

/// Names and values of everything that determines a run, and when it started, in display order. `gemm` says
/// which path the matrix products take and how fast they are; `hdf5` is the version of the library.
using Provenance = std::vector<std::pair<std::string, std::string>>;
Provenance makeProvenance(const std::string& mpi_library, const std::string& hdf5, const std::string& gemm,
                          const std::string& command_line);

} // namespace partita
