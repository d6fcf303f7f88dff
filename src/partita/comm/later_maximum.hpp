#pragma once

#include "partita/comm/wait.hpp"

#include <array>

namespace partita {

/// Maxima over all ranks that are asked for at one step and known some steps later, so that no rank waits for
/// the slowest. Every rank starts and finishes at the same steps.
class LaterMaximum {
 public:
  static constexpr std::size_t count = 3;
  using Values = std::array<std::int64_t, count>;

  explicit LaterMaximum(const Communicator& world) : _comm(world.duplicate()) {}
  ~LaterMaximum();
  LaterMaximum(const LaterMaximum&) = delete;
  LaterMaximum& operator=(const LaterMaximum&) = delete;

  bool started() const { return _request.underWay(); }
  void start(const Values& own);
  Values finish();

 private:
  Communicator _comm;
  Values _values{};
  Request _request;
};

} // namespace partita
