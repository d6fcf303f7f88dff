#pragma once

#include "partita/data/dataset.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace partita {

/// A vocabulary of byte pairs (Sennrich, Haddow and Birch, arXiv 1508.07909, on bytes): tokens 0 .. 255 are
/// the bytes; line k = 1, 2, ... of the file makes token 255 + k of two earlier ones, given as two numbers
/// with a blank between them. Empty lines and lines that begin with # do not count.
class BytePairs {
 public:
  BytePairs() = default; ///< the bytes alone
  /// Throws UserError `name:line: ...`.
  BytePairs(std::string_view text, const std::string& name);

  std::int64_t vocabulary() const { return 256 + static_cast<std::int64_t>(_made.size()); }

  /// Merges pairs in the order of the vocabulary, each from left to right; O(n log n) for n bytes.
  std::vector<std::int32_t> encode(std::string_view text) const;

 private:
  std::unordered_map<std::uint64_t, std::int32_t> _made; ///< from two tokens, the first one in the upper half
};

/// The next-token task on a row of tokens: sample i is the window of `sequence` tokens from i x sequence on,
/// its labels the tokens one place later. What does not fill a window is left out. `limit` windows at most
/// are made (0: all). Throws UserError, beginning with `source`, where there is no whole window.
LoadedSet windowsOf(const std::vector<std::int32_t>& tokens, std::int64_t vocabulary, std::int64_t sequence,
                    std::int64_t limit, const std::string& source, Need need);

/// The two files of a deck of kind `text`, plain or gzip'd: a token is a byte, or what a vocabulary of byte
/// pairs makes of them.
LoadedSets readText(const DataSection& section, Need need);

} // namespace partita
