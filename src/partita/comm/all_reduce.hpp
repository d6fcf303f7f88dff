#pragma once

#include "partita/comm/number_sum.hpp"
#include "partita/comm/wait.hpp"

namespace partita {

/// A sum of values over all ranks of a communicator, in the background. Many values use the ring algorithm, a
/// reduce-scatter and an all-gather with one message per step (Thakur, Rabenseifner and Gropp, IJHPCA 19,
/// 2005); few values, and values that only a device can read, use MPI's own all-reduce. All ranks get the
/// same bits; the ring adds in the same order in every run.
class AllReduce {
 public:
  /// `channel`: that of its messages. All ranks of `peers` use the sums of a channel in the same order.
  AllReduce(const Communicator& peers, const NumberSum& sum, int channel)
      : _peers(peers), _sum(sum), _channel(channel) {}

  /// Adds the values of all other ranks to `values`, which must remain valid until the sum is complete. All
  /// ranks start sums and other collective operations on `peers` in the same order. `ring`: can the processor
  /// read the values?
  void start(const TypedSpan& values, bool ring);
  /// May be called at any time before the first `advance`. `work`: room for 1/ranks of the values and one
  /// more, until the sum is complete.
  void begin(void* work);
  /// Is the sum complete? Messages move only while this is called.
  bool advance();

 private:
  TypedSpan chunk(int index) const;
  void exchange();
  void add(const TypedSpan& chunk) const;

  const Communicator& _peers;
  const NumberSum& _sum;
  int _channel;
  TypedSpan _values;
  void* _work = nullptr;
  int _step = 0, _steps = 0; ///< of the ring; no steps: MPI's own
  Request _in, _out;
};

} // namespace partita
