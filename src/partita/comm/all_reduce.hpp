#pragma once

#include "partita/comm/number_sum.hpp"
#include "partita/comm/rank_sum.hpp"
#include "partita/comm/wait.hpp"
#include "partita/core/asynchronous.hpp"

namespace partita {

/// A sum over all ranks of a communicator by MPI. Many values use the ring algorithm, a reduce-scatter and an
/// all-gather with one message per step (Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005); few values, and
/// values that only a device can read, use MPI's own all-reduce. All ranks get the same bits; the ring adds
/// in the same order in every run.
class AllReduce final : public RankSum {
 public:
  /// `channel`: the one that its messages use. All ranks of `peers` use the sums of a channel in
  /// the same order. `ring`: can the processor read the values? `what`: a literal, for reports
  /// about waits.
  AllReduce(const Communicator& peers, const NumberSum& sum, int channel, bool ring, const char* what)
      : _peers(peers), _sum(sum), _channel(channel), _ring(ring), _what(what) {}

  void start(const ExecSpace& space, const TypedSpan& values) override;
  bool ready() const override { return _ready.reached(); }
  void begin(void* work) override;
  bool advance() override;

 private:
  TypedSpan chunk(int step) const; ///< see `ringChunk`
  void exchange();
  void add(const TypedSpan& chunk) const;

  const Communicator& _peers;
  const NumberSum& _sum;
  int _channel;
  bool _ring;
  const char* _what;
  TypedSpan _values;
  void* _work = nullptr;
  Event _ready;              ///< the values are final
  int _step = 0, _steps = 0; ///< of the ring; no steps: MPI's own
  Request _in, _out;
};

} // namespace partita
