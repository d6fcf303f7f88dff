#pragma once

#include <algorithm>
#include <cstdint>

namespace partita {

/// The buckets in which ranks add up the gradients of a stage while the backward pass still runs.
struct SumBuckets {
  static constexpr std::int64_t most_buckets = 64, most_at_once = 8;

  /// `wanted`: values of a bucket, unless there would be too many buckets.
  SumBuckets(std::int64_t its_values, std::int64_t wanted, std::int64_t its_ranks)
      : values(its_values), ranks(its_ranks),
        bucket(std::max(wanted, (values + most_buckets - 1) / most_buckets)) {}

  /// Buckets that are added up at the same time.
  std::int64_t atOnce() const { return std::min(most_at_once, (values + bucket - 1) / bucket); }
  /// Values that one of them receives in one message of a ring.
  std::int64_t received() const { return std::min(bucket, values) / ranks + 1; }

  std::int64_t values, ranks, bucket;
};

} // namespace partita
