#pragma once

#include "partita/comm/link.hpp"
#include "partita/comm/mpi.hpp"

#include <functional>

namespace partita {

/// A common clock for all ranks of a communicator, whatever the origins of their local clocks. Offsets are
/// measured against rank 0 (Cristian, Probabilistic clock synchronization, Distributed Computing 3, 1989):
/// exact on one host, otherwise to within half the shortest round-trip time.
class SharedClock {
 public:
  /// Starts at zero. Collective.
  explicit SharedClock(const Communicator& comm, std::function<double()> own = linkSeconds);

  double seconds() const { return _own() + _offset; }

 private:
  std::function<double()> _own; ///< s
  double _offset = 0.0;         ///< from the local clock to this one
};

} // namespace partita
