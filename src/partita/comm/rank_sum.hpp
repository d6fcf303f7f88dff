#pragma once

#include "partita/core/typed_span.hpp"

#include <memory>

namespace partita {

/// A sum of values over some ranks, in the background. All of them get the same bits. Rings give the same
/// ones in every run, and so do the collective operations of most MPI libraries.
class RankSum {
 public:
  virtual ~RankSum() = default;

  /// Adds the values of all other ranks to `values`, as `space` leaves them; does not wait for it. They must
  /// remain valid until the sum is complete. All ranks start sums and other collective operations among them
  /// in the same order, and begin them in that order too.
  virtual void start(const ExecSpace& space, const TypedSpan& values) = 0;
  /// May the sum begin: has `space` come so far? Until then it waits for this rank's device, not for others.
  virtual bool ready() const = 0;
  /// To be called once between `ready` and the first `advance`. `work`: room for 1/ranks of the values, plus
  /// one value, until the sum is complete; null if the processor cannot read the values.
  virtual void begin(void* work) = 0;
  /// Is the sum complete? It may progress only while this is called.
  virtual bool advance() = 0;
};

/// Ranks that add up values in the memory of their devices, where they are.
class DeviceSums {
 public:
  virtual ~DeviceSums() = default;
  virtual std::unique_ptr<RankSum> make() = 0;
};

} // namespace partita
