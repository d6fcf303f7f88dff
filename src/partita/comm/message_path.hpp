#pragma once

#include "partita/config/run_config.hpp"
#include "partita/core/types.hpp"
#include "partita/plan/stage_memory.hpp"

#include <functional>
#include <optional>
#include <string>

namespace partita {

/// How matrices are passed to MPI: directly from where they are stored, or through a copy in pinned host
/// memory. On a host back end `staged` only costs one more copy; results are bitwise identical.
enum class MessagePath { direct, staged };

/// The paths of this rank, and the reason for them.
struct MessagePaths {
  MessagePath messages = device_is_host ? MessagePath::direct : MessagePath::staged;   ///< Sender, Receiver
  MessagePath reductions = device_is_host ? MessagePath::direct : MessagePath::staged; ///< GradientReducer
  std::string reason;
  Precision wire = Precision::single; ///< of activations and their gradients during training
  Precision sums = Precision::single; ///< of sums of gradients
  bool nccl = false; ///< devices add up gradients, whatever `reductions` is; known when there is a Grid
};

/// The same, in the form needed by the memory plan of a stage.
DeviceKind deviceKind(const MessagePaths& paths);

/// Chosen by `run/device_aware_mpi`, or by what MPI itself reports. Throws UserError if the device cannot
/// write 16-bit numbers where MPI reads them.
MessagePaths chooseMessagePaths(const RunConfig& config);

/// Whether an MPI library accepts device buffers, and how this is known.
struct DeviceAwareness {
  bool aware = false;
  std::string reason;
};

/// Decides by the library's name, by its own answer if it can give one, and by the variables that
/// turn device support on or off: MPICH_GPU_SUPPORT_ENABLED (Cray), MV2_USE_CUDA and MV2_USE_ROCM
/// (MVAPICH2), I_MPI_OFFLOAD (Intel).
DeviceAwareness judgeDeviceAwareness(const std::string& library, std::optional<bool> answer,
                                     const std::function<const char*(const char*)>& environment);

} // namespace partita
