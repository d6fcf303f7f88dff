#pragma once

#include "partita/data/dataset.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace partita {

/// LIBSVM text (Chang and Lin, "LIBSVM: a library for support vector machines", ACM TIST 2011) as written in
/// the file: lines `label index:value ...` with whole labels and ascending indices from 1; `#` opens a
/// comment.
struct LibsvmText {
  std::vector<std::int32_t> labels;
  SparseRows rows;
  std::size_t width = 0; ///< largest index in the file
};

/// Throws UserError `name:line:column: ...`.
LibsvmText parseLibsvm(std::string_view text, const std::string& name);

/// The two files of a deck of kind `libsvm`, plain or gzip'd. The distinct training labels in ascending order
/// become 0 .. C-1, unless `trained` defines the mapping; then only the test file is read, if there is one.
/// The width is the largest width of the two files, or that of `trained`. A set is stored without its zeros
/// if that takes less than half of the memory.
LoadedSets readLibsvm(const DataSection& section, Need need, const TrainedInput* trained = nullptr);

} // namespace partita
