#pragma once

#include "partita/comm/link.hpp"
#include "partita/comm/message_path.hpp"
#include "partita/comm/wait.hpp"

namespace partita {

/// Sums a flat gradient over the replicas of a stage while the backward pass is still running: parts become
/// ready from the back of the buffer, and each full bucket starts its own non-blocking all-reduce. All
/// replicas end with the same bits.
class GradientReducer {
 public:
  /// `bucket` in values; `bytes` counts the payload. With one replica nothing happens.
  GradientReducer(const Communicator& peers, const Vector& gradients, std::int64_t bucket, MessagePath path,
                  std::int64_t& bytes);

  /// The values [begin, end) are final; ranges come from the back and touch.
  void ready(const ExecSpace& space, std::int64_t begin, std::int64_t end);
  /// Waits until the whole gradient is summed; afterwards the next step may begin.
  void finish(const ExecSpace& space);

 private:
  void reduce(const ExecSpace& space, std::int64_t begin, std::int64_t end);

  using PinnedVector = Kokkos::View<Real*, Kokkos::LayoutRight, PinnedSpace>;
  struct Pending {
    Request request;
    std::int64_t begin, end;
  };
  PinnedVector staged(std::int64_t begin, std::int64_t end) const;

  const Communicator& _peers;
  Vector _gradients;
  MessagePath _path;
  PinnedVector _staging;              ///< of all gradients, where they are staged
  std::int64_t _bucket, _begin, _end; ///< [_begin, _end): ready but not yet on its way
  std::vector<Pending> _pending;
  SlowLink _link;
  double _due = 0.0; ///< on a slow link: when the sums begun so far are there
  std::int64_t& _bytes;
};

} // namespace partita
