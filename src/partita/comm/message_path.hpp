#pragma once

#include "partita/config/run_config.hpp"
#include "partita/core/types.hpp"
#include "partita/plan/stage_memory.hpp"

#include <functional>
#include <optional>
#include <string>

namespace partita {

/// How matrices get to MPI: it reads and writes where they lie, or a copy in pinned memory of the host. On a
/// host back end `staged` is one copy more and nothing else; results are the same bits.
enum class MessagePath { direct, staged };

/// The paths of this rank, and why they were taken.
struct MessagePaths {
  MessagePath messages = device_is_host ? MessagePath::direct : MessagePath::staged;   ///< Sender, Receiver
  MessagePath reductions = device_is_host ? MessagePath::direct : MessagePath::staged; ///< GradientReducer
  std::string reason;
  Precision wire = Precision::single; ///< of what travels while training
};

/// The same, as the plan of a stage's memory wants it.
DeviceKind deviceKind(const MessagePaths& paths);

/// As `run/device_aware_mpi` says, or as MPI itself does when asked. Throws UserError where the device cannot
/// write numbers of the precision `wire` where MPI reads them.
MessagePaths chooseMessagePaths(Switch device_aware_mpi, Precision wire = Precision::single,
                                Precision precision = Precision::single);

/// Whether an MPI library takes buffers on a device, and how one knows.
struct DeviceAwareness {
  bool aware = false;
  std::string reason;
};

/// Judges by the library's name, by its own answer where it can give one, and by the variables that switch
/// it: MPICH_GPU_SUPPORT_ENABLED (Cray), MV2_USE_CUDA and MV2_USE_ROCM (MVAPICH2), I_MPI_OFFLOAD (Intel).
DeviceAwareness judgeDeviceAwareness(const std::string& library, std::optional<bool> answer,
                                     const std::function<const char*(const char*)>& environment);

} // namespace partita
