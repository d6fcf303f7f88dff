#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace partita {

/// A mistake of Partita or of the system under it: ends the whole job with rank, file and line, exit code 1.
/// Mistakes of the user are UserError (config/user_error.hpp).
class InternalError : public std::runtime_error {
 public:
  InternalError(const std::string& message, const char* file, int line)
      : std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + message) {}
};

/// A run that cannot go on, though neither the deck nor Partita is wrong (a loss that diverged, a disk that
/// filled up): ends the whole job with one line, exit code 1.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

} // namespace partita

#define PARTITA_FAIL(message) throw ::partita::InternalError((message), __FILE__, __LINE__)

#define PARTITA_REQUIRE(condition, message)                                                                  \
  do {                                                                                                       \
    if (!(condition)) PARTITA_FAIL(std::string("'" #condition "' does not hold: ") + (message));             \
  } while (false)
