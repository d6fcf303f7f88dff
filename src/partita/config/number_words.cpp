#include "partita/config/number_words.hpp"

#include "partita/config/text.hpp"

#include <cstdlib>

namespace partita {

std::string checkWord(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  return formatted("%016llx", static_cast<unsigned long long>(hash));
}

std::string withCheckWord(const std::string& line) {
  return line + " " + checkWord(line);
}

double NumberWords::real() {
  const std::string word = next();
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  // The comparisons also refuse NaN.
  _good = _good && end == word.c_str() + word.size() && value >= 0.0 && value < 1e300;
  return value;
}

std::int64_t NumberWords::integer(std::int64_t least, std::int64_t most) {
  const std::string word = next();
  char* end = nullptr;
  const std::int64_t value = std::strtoll(word.c_str(), &end, 10);
  _good = _good && end == word.c_str() + word.size() && value >= least && value <= most;
  return _good ? value : least;
}

std::uint64_t NumberWords::bits() {
  const std::string word = next();
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(word.c_str(), &end, 16);
  _good = _good && end == word.c_str() + word.size();
  return value;
}

bool NumberWords::whole() {
  std::string further;
  return _good && !(_stream >> further);
}

bool NumberWords::checked() {
  next();
  return whole() && _line == withCheckWord(_line.substr(0, _line.rfind(' ')));
}

std::string NumberWords::next() {
  std::string word;
  _good = _good && static_cast<bool>(_stream >> word);
  return word;
}

} // namespace partita
