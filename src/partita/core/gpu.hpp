#pragma once

#include "partita/core/types.hpp"

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)

#include "partita/core/error.hpp"

/// A name of the CUDA or HIP runtime, which differ only in their prefix.
#if defined(KOKKOS_ENABLE_CUDA)
#define PARTITA_GPU(name) cuda##name
#else
#define PARTITA_GPU(name) hip##name
#endif

namespace partita {

inline void checkGpu(PARTITA_GPU(Error_t) status) {
  if (status != PARTITA_GPU(Success)) PARTITA_FAIL(PARTITA_GPU(GetErrorString)(status));
}

inline PARTITA_GPU(Stream_t) streamOf(const ExecSpace& space) {
#if defined(KOKKOS_ENABLE_CUDA)
  return space.cuda_stream();
#else
  return space.hip_stream();
#endif
}

} // namespace partita

#endif
