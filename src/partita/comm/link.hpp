#pragma once

#include <cstdint>
#include <string>

namespace partita {

/// Links that are slower than those of the machine, and ranks that are late: for tests, benchmarks and plans.
/// The variable PARTITA_LINKS switches it on, as "latency=2e-3,bandwidth=1e8,delay=0.02,seed=1".
struct LinkModel {
  double latency = 0.0;   ///< s, of each message
  double bandwidth = 0.0; ///< bytes/s of one direction between two ranks; 0: the machine's own
  double delay = 0.0;     ///< s: a random wait of up to so long before each operation and each message
  std::int64_t seed = 1;  ///< of these waits

  bool slow() const { return latency > 0.0 || bandwidth > 0.0; }
};

/// Throws UserError, beginning with "PARTITA_LINKS: ", where the text is no such list.
LinkModel parseLinkModel(const std::string& text);

/// What this process emulates: that of the variable, unless a test has set another one.
const LinkModel& linkModel();
void setLinkModel(const LinkModel& model);

/// Waits as the model says: a function of its seed, this rank and the number of the call.
void delayAtRandom();

/// Seconds of a clock that all processes of one host share.
double linkSeconds();

/// One direction of a link: messages follow one another.
class SlowLink {
 public:
  /// When a message of so many bytes that leaves now has arrived, in linkSeconds.
  double arrival(std::int64_t bytes);
  /// When a sum of so many bytes over `ranks` that starts now is complete, as a ring makes it: each rank
  /// sends and receives 2 (ranks - 1) parts.
  double summed(std::int64_t bytes, int ranks);

 private:
  double after(std::int64_t bytes, double latency);
  double _free = 0.0; ///< when the last message has left
};

} // namespace partita
