#pragma once

#include "partita/comm/link.hpp"
#include "partita/comm/message_path.hpp"
#include "partita/comm/number_sum.hpp"
#include "partita/comm/wait.hpp"

namespace partita {

/// Sums a flat gradient over the replicas of a stage while the backward pass is still running: parts become
/// ready from the back of the buffer, and each full bucket starts its own non-blocking all-reduce. All
/// replicas end with the same bits. Sums may be made in another precision than that of the gradient: numbers
/// of 16 bits are then rounded at each addition.
class GradientReducer {
 public:
  /// `bucket` in values; `bytes` counts the payload. With one replica nothing happens.
  GradientReducer(const Communicator& peers, const Numbers& gradients, std::int64_t bucket, MessagePath path,
                  std::int64_t& bytes, Precision wire = Precision::single);

  /// The gradient is so many times too large. Sums in 16 bits are made of what is there, lest small numbers
  /// vanish; sums of such numbers in `Real` are made of descaled ones, lest large ones overflow.
  void setScale(double scale) { _scale = scale; }

  /// The values [begin, end) are final; ranges come from the back and touch.
  void ready(const ExecSpace& space, std::int64_t begin, std::int64_t end);
  /// Waits until the values from `begin` on are summed, when all are ready. Begins get smaller; after 0 the
  /// next step may begin.
  void arrive(const ExecSpace& space, std::int64_t begin);
  void finish(const ExecSpace& space) { arrive(space, 0); }

 private:
  void reduce(const ExecSpace& space, std::int64_t begin, std::int64_t end);
  void copyBack(const ExecSpace& space, std::int64_t begin, std::int64_t end) const;

  using PinnedVector = Kokkos::View<Real*, Kokkos::LayoutRight, PinnedSpace>;
  struct Pending {
    Request request;
    std::int64_t begin, end;
  };
  Numbers sent(std::int64_t begin, std::int64_t end) const;

  const Communicator& _peers;
  Numbers _gradients;
  Precision _wire;
  NumberSum _sum;
  bool _plain;           ///< copied without a change
  PinnedVector _staging; ///< of all gradients, where they are staged or of another precision
  double _scale = 1.0;
  std::int64_t _bucket, _begin, _end; ///< [_begin, _end): ready but not yet on its way
  std::vector<Pending> _pending;      ///< from the back
  std::size_t _arrived = 0;           ///< of those
  SlowLink _link;
  double _due = 0.0; ///< on a slow link: when the sums begun so far are there
  std::int64_t& _bytes;
};

} // namespace partita
