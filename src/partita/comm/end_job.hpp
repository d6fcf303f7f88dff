#pragma once

#include <string>

namespace partita {

/// What the program ends with where it did not finish (docs/user-guide.md).
constexpr int exit_failure = 1, exit_user_error = 2, exit_stopped = 75; // EX_TEMPFAIL: to be tried again

/// This rank alone has found that the job cannot go on: tells why, after "partita: rank N: ", and ends it;
/// the others would wait for ever. Takes some seconds on ranks behind the first one, so that one tells.
[[noreturn]] void endJob(int rank, const std::string& message, int code);

} // namespace partita
