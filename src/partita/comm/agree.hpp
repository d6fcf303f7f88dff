#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/config/user_error.hpp"

#include <functional>
#include <string>

namespace partita {

/// A mistake of the user that every rank knows of: rank 0 tells it and all end in order.
class AgreedError : public UserError {
 public:
  explicit AgreedError(std::vector<std::string> messages, bool by_system = false)
      : UserError(std::move(messages)) {
    _by_system = by_system;
  }
  explicit AgreedError(const std::string& message) : UserError(message) {}
};

/// Runs `work` on every rank; where it throws a UserError on any, all throw an AgreedError with the messages
/// of the lowest such rank. Without this, a file that one node cannot read would leave the others waiting.
/// Collective; `work` itself must not communicate.
void collectively(const Communicator& world, const std::function<void()>& work);

/// The text of rank `teller`, on every rank. Collective.
std::string tellAll(const Communicator& world, std::string text, int teller = 0);

/// Throws AgreedError "the WHAT of rank N differs from that of rank 0" if a rank has another text than rank
/// 0: what the ranks then do together would never end. Collective.
void requireSame(const Communicator& world, const std::string& text, const std::string& what);

/// What the program ends with where it did not finish (docs/user-guide.md).
constexpr int exit_failure = 1, exit_user_error = 2, exit_stopped = 75; // EX_TEMPFAIL: to be tried again

/// This rank alone has found that the job cannot go on: tells why, after "partita: rank N: ", and ends it;
/// the others would wait for ever. Takes some seconds on ranks behind the first one, so that one tells.
[[noreturn]] void endJob(int rank, const std::string& message, int code);

} // namespace partita
