#pragma once

#include "partita/comm/link.hpp"
#include "partita/comm/message_path.hpp"
#include "partita/comm/number_sum.hpp"
#include "partita/comm/wait.hpp"

#include <functional>

namespace partita {

/// Sums a flat gradient over the replicas of a stage while the backward pass is still running: parts become
/// ready from the back of the buffer, and each full bucket starts its own non-blocking all-reduce. All
/// replicas end with the same bits. Sums may be made in another precision than that of the gradient: numbers
/// of 16 bits are then rounded at each addition.
///
/// Buckets are cut from the back of the buffer, whatever the layers are, and on all ranks alike. Which one
/// goes next depends on nothing but their places: a collective has one order on all ranks.
class GradientReducer {
 public:
  /// Told of values that are summed.
  using Arrived = std::function<void(std::int64_t begin, std::int64_t end)>;

  /// `bucket` in values, and at least one in `most_buckets` of them; `bytes` counts the payload. With one
  /// replica nothing happens.
  GradientReducer(const Communicator& peers, const Numbers& gradients, std::int64_t bucket, MessagePath path,
                  std::int64_t& bytes, Precision wire = Precision::single);

  /// The gradient is so many times too large. Sums in 16 bits are made of what is there, lest small numbers
  /// vanish; sums of such numbers in `Real` are made of descaled ones, lest large ones overflow.
  void setScale(double scale) { _scale = scale; }
  /// The gradient of this step is wanted from the front, by a forward pass. The backward pass is two thirds
  /// of a step: where links are as busy as the ranks, two buckets of three get through behind it. Every third
  /// one is held back until the whole gradient is ready, so that those in front do not queue up behind it.
  void holdBack(bool hold) { _holds = hold; }

  /// The values [begin, end) are final; ranges come from the back and touch.
  void ready(const ExecSpace& space, std::int64_t begin, std::int64_t end);
  /// When all are ready: completes sums in the order in which they were begun until those of [begin, end) are
  /// there, and tells each. Behind the last one the next step may begin.
  void arrive(const ExecSpace& space, std::int64_t begin, std::int64_t end, const Arrived& arrived = {});
  void finish(const ExecSpace& space) { arrive(space, 0, _gradients.size); }

 private:
  static constexpr std::int64_t most_buckets = 64;
  struct Pending {
    Request request;
    std::int64_t begin, end;
    double due; ///< on a slow link: when the sum is there
  };
  void startFull(const ExecSpace& space);
  void reduce(const ExecSpace& space, std::int64_t begin, std::int64_t end);
  void letMove();
  void complete(const ExecSpace& space, Pending& pending);
  void copyBack(const ExecSpace& space, std::int64_t begin, std::int64_t end) const;

  using PinnedVector = Kokkos::View<Real*, Kokkos::LayoutRight, PinnedSpace>;
  Numbers sent(std::int64_t begin, std::int64_t end) const;

  const Communicator& _peers;
  Numbers _gradients;
  Precision _wire;
  NumberSum _sum;
  bool _plain;           ///< copied without a change
  PinnedVector _staging; ///< of all gradients, where they are staged or of another precision
  double _scale = 1.0;
  std::int64_t _bucket, _begin, _end; ///< [_begin, _end): ready but in no bucket yet
  bool _holds = false;
  std::int64_t _cut = 0;                                    ///< buckets of this step so far
  std::vector<std::pair<std::int64_t, std::int64_t>> _held; ///< buckets, from the back
  std::vector<Pending> _pending;                            ///< in the order in which they were begun
  std::size_t _arrived = 0;                                 ///< of those
  SlowLink _link;
  std::int64_t& _bytes;
};

} // namespace partita
