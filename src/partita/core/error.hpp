#pragma once

#include <exception>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>

namespace partita {

/// An error in Partita or in the system below it: ends the whole job with rank, file and line, exit code 1.
/// User errors are UserError (config/user_error.hpp).
class InternalError : public std::runtime_error {
 public:
  InternalError(const std::string& message, const char* file, int line)
      : std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + message) {}
};

/// A run that cannot continue, although neither the deck nor Partita is wrong (a diverged loss, a full disk):
/// ends the whole job with a one-line message, exit code 1.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The text of an error for the user, in one line also if memory is lacking.
inline std::string textForUser(const std::exception& error) {
  const std::string message = "not enough memory; -n shows what each rank needs", text = error.what();
  const bool of_library = text == std::bad_alloc().what() || text == std::bad_array_new_length().what(),
             of_kokkos = text.find("failed to allocate") != std::string::npos; // several lines
  return of_library || of_kokkos ? message : text;
}

} // namespace partita

#define PARTITA_FAIL(message) throw ::partita::InternalError((message), __FILE__, __LINE__)

#define PARTITA_REQUIRE(condition, message)                                                                  \
  do {                                                                                                       \
    if (!(condition)) PARTITA_FAIL(std::string("'" #condition "' does not hold: ") + (message));             \
  } while (false)
