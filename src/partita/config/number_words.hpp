#pragma once

#include <cstdint>
#include <sstream>
#include <string>

namespace partita {

/// The 64-bit FNV-1a hash of a text in hexadecimal. Texts of equal length that differ in one byte have
/// different hashes.
std::string checkWord(const std::string& text);

/// The line with a last word that proves it complete and unchanged; see NumberWords::checked.
std::string withCheckWord(const std::string& line);

/// The words of a line as numbers, from a file that the program has written itself: a word that is no number,
/// or is out of its range, means that the file is damaged.
class NumberWords {
 public:
  explicit NumberWords(const std::string& line) : _line(line), _stream(line) {}

  double real(); ///< 0 or more, below 1e300; hexadecimal or decimal
  std::int64_t integer(std::int64_t least, std::int64_t most); ///< `least` if the file is damaged
  std::uint64_t bits();                                        ///< hexadecimal

  /// Have all words so far been as expected?
  bool good() const { return _good; }
  /// The same, and is there no further word? To be called last.
  bool whole();
  /// The same, and is the next word, the last one, the check word of those before it? To be called last.
  bool checked();

 private:
  std::string next();

  std::string _line;
  std::istringstream _stream;
  bool _good = true;
};

} // namespace partita
