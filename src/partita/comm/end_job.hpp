#pragma once

#include <string>

namespace partita {

/// This rank alone has found that the job cannot go on: tells why, after "partita: rank N: ", and ends it;
/// the others would wait for ever. Takes some seconds on ranks behind the first one, so that one tells.
[[noreturn]] void endJob(int rank, const std::string& message, int code);

} // namespace partita
