#pragma once

#include "partita/comm/link.hpp"
#include "partita/comm/mpi.hpp"

#include <functional>

namespace partita {

/// One clock for all ranks of a communicator, whatever their hosts' own clocks count from. How far these are
/// apart is asked of rank 0 (Cristian, Probabilistic clock synchronization, Distributed Computing 3, 1989):
/// exact on one host, else to half the time of the quickest question and its answer.
class SharedClock {
 public:
  /// Counts from here. Collective.
  explicit SharedClock(const Communicator& comm, std::function<double()> own = linkSeconds);

  double seconds() const { return _own() + _offset; }

 private:
  std::function<double()> _own; ///< s
  double _offset = 0.0;         ///< from the own clock to this one
};

} // namespace partita
