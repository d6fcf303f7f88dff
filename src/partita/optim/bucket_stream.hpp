#pragma once

#include "partita/core/asynchronous.hpp"
#include "partita/core/stored_vector.hpp"

#include <array>
#include <functional>
#include <optional>
#include <vector>

namespace partita {

/// Streams vectors of equal length through the device in buckets, to modify them there: while one bucket is
/// processed, the next ones are copied in and the previous ones out. Each direction has its own copy stream;
/// there are three sets of buffers. Vectors on the device are used in place.
class BucketStream {
 public:
  /// The range [begin, end) of every vector; null in `values` means that the vector is empty.
  struct Bucket {
    std::int64_t begin = 0, end = 0;
    std::array<Real*, 3> values{};
  };
  using Work = std::function<void(const Bucket&)>;

  /// At most three vectors of `size` values; `bucket` in values.
  BucketStream(std::int64_t size, std::vector<StoredVector> vectors, std::int64_t bucket);

  /// `work` launches on `space` the kernels that modify a bucket; buckets run from last to first, as
  /// gradients do. The first copies wait for earlier work on `space`, which may have changed the vectors;
  /// afterwards `space` waits for the copies that are still under way.
  void run(const ExecSpace& space, const Work& work);
  /// The range [begin, end) as a bucket; requires that all vectors are on the device.
  Bucket onDevice(std::int64_t begin, std::int64_t end) const;

 private:
  struct BufferSet {
    std::vector<Vector> buffers; ///< one per vector; empty if the vector is on the device
    Event loaded, worked, saved;
  };
  static constexpr std::int64_t sets = 3;

  Bucket bucketAt(std::int64_t number) const;
  void load(std::int64_t number);
  void save(std::int64_t number);
  BufferSet& setOf(std::int64_t number) { return _sets[number % sets]; }

  std::vector<StoredVector> _vectors;
  std::int64_t _size, _bucket, _buckets;
  std::array<BufferSet, sets> _sets;
  std::optional<CopyStream> _in, _out; ///< only if any vector is not on the device; gone before the buffers
  Event _begin;
};

} // namespace partita
