#pragma once

#include "partita/core/types.hpp"

#include <string>
#include <utility>
#include <vector>

namespace partita {

/// The BLAS library behind the matrix products.
struct BlasInfo {
  std::string library; ///< "OpenBLAS 0.3.21", "MKL ...", "unknown"
  std::string kernel;  ///< processor its kernels were made for, as far as it tells: "SkylakeX"
  std::string advice;  ///< not empty: a better choice exists, and how to make it
};
BlasInfo blasInfo();

/// Name and value of all that made a run what it is, in the order they are shown. `gemm` says which path the
/// matrix products take and how fast they are.
using Provenance = std::vector<std::pair<std::string, std::string>>;
Provenance makeProvenance(const std::string& mpi_library, const std::string& gemm,
                          const std::string& command_line);

} // namespace partita
