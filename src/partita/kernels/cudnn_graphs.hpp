#pragma once

#if defined(PARTITA_HAVE_CUDNN)

#include "partita/kernels/cudnn.hpp"
#include "partita/kernels/cudnn_convolve.hpp"

#include <vector>

/// Convolutions as graphs of cuDNN, and the algorithms for them.
namespace partita::cudnn {

/// The three ways to compute with a convolution, and the names that the library has for their parts.
struct Direction {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t in, weight, out, windows, alpha, beta;
};

extern const Direction forward_direction, weight_direction, input_direction;

/// What a compiled direction depends on. With `add` the result is added to what is there.
struct Wanted {
  const ConvolveCase& c;
  const Direction& direction;
  bool add;
  std::int64_t alignment; ///< bytes of which all addresses are multiples
};

/// Names of the operands of a graph.
enum TensorId : std::int64_t { in_id = 1, weight_id = 2, out_id = 3 };

/// Descriptors that refer to those before them, which are kept with them; the last one is what is wanted.
using Descriptors = std::vector<Descriptor>;

/// The library's first suitable proposal that it can compile and whose scratch is small enough;
/// empty if there is none. The caller holds the mutex.
Descriptors planOf(cudnnHandle_t handle, const Wanted& wanted);

} // namespace partita::cudnn

#endif
