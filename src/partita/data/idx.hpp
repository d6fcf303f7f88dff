#pragma once

#include "partita/data/dataset.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace partita {

/// The IDX format of the MNIST files (LeCun, Cortes and Burges): big-endian header 00 00 08 D followed by D
/// 32-bit sizes, then unsigned bytes. Plain or gzip'd. Errors are UserError with the file and the byte or
/// sample.
struct IdxImages {
  std::size_t count = 0;
  std::vector<std::int64_t> shape; ///< n x w: {w}; n x h x w: {1, h, w}; n x c x h x w: {c, h, w}
  Samples samples;
};

/// Checks the whole file and keeps the first `limit` samples (0: all).
IdxImages readIdxImages(const std::string& path, std::int64_t limit);

/// Count and shape only: reads no more than the header.
IdxImages readIdxHeader(const std::string& path);

std::vector<std::int32_t> readIdxLabels(const std::string& path);

/// The four files of a deck of kind `idx`. `evaluates`: only the test set is read.
LoadedSets readIdx(const DataSection& section, Need need, bool evaluates = false);

} // namespace partita
