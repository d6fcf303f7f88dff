#pragma once

#include "partita/config/text.hpp"

#include <stdexcept>
#include <string>
#include <vector>

namespace partita {

/// A mistake of the user: deck, data file or command line. Each message is one line that says what is wrong
/// and where; the program prints them on rank 0 and ends with exit code 2. Internal errors use
/// core/error.hpp.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message) : UserError(std::vector<std::string>{message}) {}
  explicit UserError(const std::vector<std::string>& messages)
      : std::runtime_error(messages.empty() ? std::string{} : asLine(messages.front())) {
    for (const std::string& message : messages) _messages.push_back(asLine(message));
  }

  /// All mistakes found, in the order of their place in the deck.
  const std::vector<std::string>& messages() const { return _messages; }
  /// Did the system fail (a full disk) without a mistake of the user? The exit code is then 1.
  bool bySystem() const { return _by_system; }

 protected:
  bool _by_system = false;

 private:
  std::vector<std::string> _messages;
};

/// A failure of the system that is not the user's mistake: the disk is full or broken.
class SystemError : public UserError {
 public:
  explicit SystemError(const std::string& message) : UserError(message) { _by_system = true; }
};

} // namespace partita
