#include "partita/comm/message_path.hpp"

#include "partita/comm/mpi.hpp"
#include "partita/config/user_error.hpp"

#include <array>
#include <cstdlib>

#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace partita {

namespace {

/// The library's own answer for the kind of device that this build computes on.
std::optional<bool> askLibrary() {
#if defined(KOKKOS_ENABLE_HIP) && defined(OMPI_HAVE_MPI_EXT_ROCM) && OMPI_HAVE_MPI_EXT_ROCM
  return MPIX_Query_rocm_support() != 0;
#elif !defined(KOKKOS_ENABLE_HIP) && defined(OMPI_HAVE_MPI_EXT_CUDA) && OMPI_HAVE_MPI_EXT_CUDA
  return MPIX_Query_cuda_support() != 0;
#else
  return std::nullopt;
#endif
}

/// Libraries whose device support is enabled by a variable.
struct Switched {
  const char* library;
  std::array<const char*, 2> variables;
};
constexpr std::array<Switched, 3> switched{{{"CRAY MPICH", {"MPICH_GPU_SUPPORT_ENABLED", nullptr}},
                                            {"MVAPICH2", {"MV2_USE_CUDA", "MV2_USE_ROCM"}},
                                            {"Intel(R) MPI", {"I_MPI_OFFLOAD", nullptr}}}};

/// Kokkos 4.2 to 4.4 allocate so unless they were configured otherwise
/// (https://github.com/kokkos/kokkos/pull/7353).
#if defined(KOKKOS_ENABLE_IMPL_CUDA_MALLOC_ASYNC)
constexpr bool allocates_in_pools = true;
#else
constexpr bool allocates_in_pools = false;
#endif

bool isOn(const char* value) {
  return value != nullptr && *value != '\0' && std::string(value) != "0";
}

bool isOpenMpi(const std::string& library) {
  return library.find("Open MPI") != std::string::npos;
}

MessagePaths everywhere(MessagePath path, const std::string& reason) {
  MessagePaths paths;
  paths.messages = paths.reductions = path;
  paths.reason = reason;
  return paths;
}

MessagePaths choosePaths(Switch device_aware_mpi);

} // namespace

DeviceAwareness judgeDeviceAwareness(const std::string& library, std::optional<bool> answer,
                                     const std::function<const char*(const char*)>& environment) {
  if (answer) return {*answer, library + (*answer ? " accepts" : " does not accept") + " device buffers"};
  for (const Switched& candidate : switched) {
    if (library.find(candidate.library) == std::string::npos) continue;
    for (const char* variable : candidate.variables) {
      if (variable == nullptr) continue;
      if (isOn(environment(variable))) return {true, std::string(variable) + " is set"};
    }
    return {false, std::string(candidate.variables[0]) + " is not set"};
  }
  return {false, library + " does not report whether it accepts device buffers"};
}

DeviceKind deviceKind(const MessagePaths& paths) {
  return {sizeof(Real), device_is_host, paths.messages == MessagePath::staged,
          paths.reductions == MessagePath::staged, paths.nccl};
}

MessagePaths chooseMessagePaths(const RunConfig& config) {
  constexpr bool reaches_pinned = Kokkos::SpaceAccessibility<ExecSpace, PinnedSpace>::accessible;
  const Precision wire = messagePrecision(config), sums = sumPrecision(config.strategy);
  const bool half =
      wire != Precision::single || sums != Precision::single || config.run.precision != Precision::single;
  if (half && !reaches_pinned)
    throw UserError(
        "run/precision, strategy/wire: both must be 'float', because this device cannot access host memory");
  MessagePaths paths = choosePaths(config.run.device_aware_mpi);
  paths.wire = wire;
  paths.sums = sums;
  // 16-bit numbers are summed on the host: MPI has no such sum.
  if (sums != Precision::single && !device_is_host) paths.reductions = MessagePath::staged;
  return paths;
}

namespace {

MessagePaths choosePaths(Switch device_aware_mpi) {
  if (device_aware_mpi == Switch::off) return everywhere(MessagePath::staged, "run/device_aware_mpi is off");
  if (device_is_host) return everywhere(MessagePath::direct, "everything is in host memory");
  const std::string library = MpiEnvironment::library();
  DeviceAwareness found{true, "run/device_aware_mpi is on"};
  if (device_aware_mpi == Switch::automatic && allocates_in_pools)
    found = {false, "Kokkos allocates by cudaMallocAsync, and not every MPI library can send such memory"};
  else if (device_aware_mpi == Switch::automatic)
    found = judgeDeviceAwareness(library, askLibrary(), std::getenv);
  if (!found.aware) return everywhere(MessagePath::staged, found.reason);
  // The non-blocking reductions of Open MPI crash on device buffers:
  // https://github.com/open-mpi/ompi/issues/9845
  MessagePaths paths = everywhere(MessagePath::direct, found.reason);
  if (isOpenMpi(library)) paths.reductions = MessagePath::staged;
  return paths;
}

} // namespace

} // namespace partita
