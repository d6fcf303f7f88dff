#pragma once

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
  /// Waits until the values from `begin` on are summed, when all are ready. Begins get smaller; after 0 the
  /// next step may begin.
  void arrive(const ExecSpace& space, std::int64_t begin);
  void finish(const ExecSpace& space) { arrive(space, 0); }

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
  std::vector<Pending> _pending;      ///< from the back
  std::size_t _arrived = 0;           ///< of those
  std::int64_t& _bytes;
};

} // namespace partita
