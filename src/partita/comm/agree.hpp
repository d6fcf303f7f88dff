#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/config/user_error.hpp"

#include <functional>

namespace partita {

/// A mistake of the user that every rank knows of: rank 0 tells it and all end in order.
class AgreedError : public UserError {
 public:
  using UserError::UserError;
};

/// Runs `work` on every rank; where it throws a UserError on any, all throw an AgreedError with the messages
/// of the lowest such rank. Without this, a file that one node cannot read would leave the others waiting.
/// Collective; `work` itself must not communicate.
void collectively(const Communicator& world, const std::function<void()>& work);

/// The text of rank `teller`, on every rank. Collective.
std::string tellAll(const Communicator& world, std::string text, int teller = 0);

} // namespace partita
