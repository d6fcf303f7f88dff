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
  std::vector<std::size_t> row_end;   ///< end of each row in `columns` and `values`
  std::vector<std::uint32_t> columns; ///< from 0
  std::vector<float> values;
  std::size_t width = 0; ///< largest index in the file
};

/// Throws UserError `name:line:column: ...`.
LibsvmText parseLibsvm(std::string_view text, const std::string& name);

/// The two files of a deck of kind `libsvm`, plain or gzip'd. The distinct training labels in ascending order
/// become 0 .. C-1, unless `trained` defines the mapping; the width is the largest width of the two files and
/// `trained`. Features are stored dense.
LoadedSets readLibsvm(const DataSection& section, Need need, const TrainedInput* trained = nullptr);

} // namespace partita
