#pragma once

#include "partita/comm/all_reduce.hpp"
#include "partita/comm/gradient_exchange.hpp"
#include "partita/comm/link.hpp"
#include "partita/comm/message_path.hpp"
#include "partita/comm/wait_times.hpp"
#include "partita/plan/sum_buckets.hpp"

#include <optional>

namespace partita {

/// Sums a flat gradient over the replicas of a stage while the backward pass is still running: each full
/// bucket starts its own non-blocking all-reduce. All replicas obtain bitwise identical sums. Sums may use
/// another precision than the gradient: 16-bit numbers are rounded at each addition.
///
/// Buckets are cut from the back of the buffer, independently of the layers, and identically on all ranks.
/// Their order depends only on their positions, since all ranks must start collectives in the same order.
class GradientReducer final : public GradientExchange {
 public:
  /// `bucket` is the bucket size in values, increased if there would be too many buckets;
  /// `bytes` counts the payload. Does nothing with one rank. Collective over `peers`. `devices`: those of
  /// `peers` if they add up the values; then `path` does not matter. `what`: a literal, for reports about
  /// waits.
  GradientReducer(const Communicator& peers, const TypedSpan& gradients, std::int64_t bucket,
                  MessagePath path, std::int64_t& bytes, Precision wire = Precision::single,
                  const std::shared_ptr<DeviceSums>& devices = nullptr, const char* what = waits::gradients);
  /// Leaves the gradients in these ranges [begin, end) out of the sum, because another rank of `peers` has
  /// the same ones.
  void leaveOut(std::vector<std::pair<std::int64_t, std::int64_t>> ranges) { _left_out = std::move(ranges); }

  bool overlaps() const override { return _ranks > 1; }
  /// 16-bit sums use scaled gradients, since small numbers would vanish otherwise; sums of 16-bit numbers in
  /// `Real` use descaled ones, since large numbers would overflow otherwise.
  void setScale(const DeviceFactor& scale, const DeviceFactor& inverse) override {
    _scale = scale;
    _inverse_scale = inverse;
  }
  /// The backward pass is two thirds of a step: if the links are as busy as the ranks, two of three
  /// buckets get through during it. Every third bucket is held back until the whole gradient is
  /// ready, so that it does not delay the buckets at the front.
  void wantFromFront(bool from_front) override { _holds = from_front; }
  void ready(const ExecSpace& space, std::int64_t begin, std::int64_t end) override;
  /// Completes sums in the order in which they were begun.
  void arrive(const ExecSpace& space, std::int64_t begin, std::int64_t end,
              const Arrived& arrived = {}) override;
  void finish(const ExecSpace& space) override { arrive(space, 0, _gradients.size); }

 private:
  struct Pending {
    std::int64_t begin, end;
    double due; ///< on a slow link: when the sum is complete
  };
  void useDevices(DeviceSums& devices);
  void useMpi(const Communicator& peers, MessagePath path);
  void setZero(const ExecSpace& space, std::int64_t begin, std::int64_t end) const;
  void startFull(const ExecSpace& space);
  void reduce(const ExecSpace& space, std::int64_t begin, std::int64_t end);
  void letMove();
  void complete(const ExecSpace& space, const Pending& pending);
  void copyBack(const ExecSpace& space, std::int64_t begin, std::int64_t end) const;

  int _ranks;
  /// Its own, since sums of stages advance in a different order on each rank; none if MPI sums nothing.
  std::optional<Communicator> _peers;
  TypedSpan _gradients;
  Precision _wire;
  const char* _what;
  NumberSum _sum;
  bool _plain;           ///< copied unchanged
  PinnedVector _staging; ///< of all gradients, if staged or of another precision
  Vector _converted;     ///< the same if devices add them up
  PinnedVector _work;    ///< of those that have begun; empty if the processor cannot read what is summed
  TypedSpan _sent;       ///< what is summed: the gradients themselves, or a copy
  std::vector<std::unique_ptr<RankSum>> _sums; ///< of buckets, in the order of `_pending`
  DeviceFactor _scale, _inverse_scale;
  SumBuckets _cuts;
  std::int64_t _begin, _end; ///< [_begin, _end): ready but in no bucket yet
  bool _holds = false;
  std::vector<std::pair<std::int64_t, std::int64_t>> _left_out;
  std::int64_t _cut = 0;                                    ///< buckets of this step so far
  std::vector<std::pair<std::int64_t, std::int64_t>> _held; ///< buckets, from the back
  std::vector<Pending> _pending;                            ///< in the order in which they were begun
  std::size_t _begun = 0, _summed = 0, _arrived = 0;        ///< how many of these
  SlowLink _link;
  std::int64_t& _bytes;
};

} // namespace partita
