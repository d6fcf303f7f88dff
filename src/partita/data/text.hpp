#pragma once

#include "partita/data/dataset.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace partita {

/// A vocabulary of byte pairs (Sennrich, Haddow and Birch, arXiv 1508.07909, on bytes): tokens 0 .. 255 are
/// the bytes; line k = 1, 2, ... of the file defines token 255 + k as a pair of earlier tokens, given as two
/// numbers separated by a blank. Empty lines and lines that begin with # are not counted.
class BytePairs {
 public:
  BytePairs() = default; ///< the bytes alone
  /// Throws UserError `name:line: ...`.
  BytePairs(std::string_view text, const std::string& name);

  std::int64_t vocabulary() const { return 256 + _made.size(); }

  /// Merges pairs in the order of the vocabulary, each from left to right; O(n log n) for n bytes.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// Memory that `encode` needs per byte of the text, besides the text itself.
  std::size_t bytesToEncode() const;

 private:
  std::unordered_map<std::uint64_t, std::int32_t>
      _made; ///< token by its pair, with the first token in the upper half
};

/// The next-token task on a sequence of tokens: sample i is the window of `sequence` tokens from i * sequence
/// on, and its labels are the tokens one position later. An incomplete last window is dropped. At most
/// `limit` windows are made (0: all). Throws UserError, beginning with `source`, if there is no whole window.
LoadedSet windowsOf(const std::vector<std::int32_t>& tokens, std::int64_t vocabulary, std::int64_t sequence,
                    std::int64_t limit, const std::string& source, Need need);

/// The two files of a deck of kind `text`, plain or gzip'd: tokens are bytes, or come from a vocabulary of
/// byte pairs. `evaluates`: only the test file is read, if there is one.
LoadedSets readText(const DataSection& section, Need need, bool evaluates = false);

} // namespace partita
