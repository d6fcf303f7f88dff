#pragma once

#include "partita/comm/mpi.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace partita {

/// Emulates links that are slower than those of the machine, and late ranks, for tests, benchmarks and plans.
/// Enabled by the variable PARTITA_LINKS, as in "latency=2e-3,bandwidth=1e8,delay=0.02,seed=1".
struct LinkModel {
  double latency = 0.0;   ///< s, of each message
  double bandwidth = 0.0; ///< bytes/s of one direction between two ranks; 0: the machine's own
  double delay = 0.0;     ///< s; maximum random wait before each operation and each message
  std::int64_t seed = 1;  ///< of these waits
  std::int64_t node = 0;  ///< number of ranks that share memory as if on one node; 0: as on the machine

  bool slow() const { return latency > 0.0 || bandwidth > 0.0; }
};

/// Throws UserError, beginning with "PARTITA_LINKS: ", if the text is not such a list.
LinkModel parseLinkModel(const std::string& text);

/// The model that this process emulates: the one in the variable, unless a test has set another one.
const LinkModel& linkModel();
void setLinkModel(const LinkModel& model);

/// Waits as the model specifies: a function of its seed, this rank and the number of the call.
void delayAtRandom();

/// Should the caller look again later, as if the device had not got that far yet? The answer is
/// random if the model delays operations, and again a function of seed, rank and call number.
bool postponedAtRandom();

/// Seconds of a clock shared by all processes of one host.
double linkSeconds();

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

/// One direction of a link: messages follow one another.
class SlowLink {
 public:
  /// Arrival time, in linkSeconds, of a message of `bytes` bytes that is sent now.
  double arrival(std::int64_t bytes);
  /// Completion time of a sum of `bytes` bytes over `ranks` ranks that starts now, for a ring algorithm: each
  /// rank sends and receives 2 (ranks - 1) parts.
  double summed(std::int64_t bytes, int ranks);

 private:
  double after(std::int64_t bytes, double latency);
  double _free = 0.0; ///< when the last message has left
};

} // namespace partita
