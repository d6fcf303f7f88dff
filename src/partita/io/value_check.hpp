#pragma once

#include "partita/config/user_error.hpp"
#include "partita/core/types.hpp"
#include "partita/io/run_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace partita {

/// What is learnt of values while they are being written: the attribute `crc32`, and whether a file may have
/// them at all.
struct ValueCheck {
  std::uint32_t checksum = 0;
  bool finite = true;

  void add(const Real* values, std::int64_t count) {
    finite = finite && std::all_of(values, values + count, [](Real value) { return std::isfinite(value); });
    checksum = static_cast<std::uint32_t>(crc32_z(checksum, reinterpret_cast<const unsigned char*>(values),
                                                  static_cast<std::size_t>(count) * sizeof(Real)));
  }
};

inline UserError notFinite(const std::string& path, const TensorRecord& tensor) {
  return UserError(path + ": '" + tensor.path() + "' has values that are not finite");
}

inline UserError notWritten(const std::string& path, const TensorRecord& tensor) {
  return UserError(path + ": cannot write '" + tensor.path() + "' (is the disk full?)");
}

} // namespace partita
