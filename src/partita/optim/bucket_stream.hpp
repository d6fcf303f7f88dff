#pragma once

#include "partita/core/asynchronous.hpp"
#include "partita/core/stored_vector.hpp"

#include <array>
#include <functional>
#include <vector>

namespace partita {

/// Takes vectors of one length through the device in buckets, to change them there: while one bucket is
/// worked on, the next are on their way in and those before on their way out, each direction on a copy stream
/// of its own with three sets of buffers. Vectors that lie on the device stay where they are.
class BucketStream {
 public:
  /// The bucket [begin, end) of every vector; where `values` has null, that vector is empty.
  struct Bucket {
    std::int64_t begin = 0, end = 0;
    std::array<Real*, 3> values{};
  };
  using Work = std::function<void(const Bucket&)>;

  /// At most three vectors of `size` values; `bucket` in values.
  BucketStream(std::int64_t size, std::vector<StoredVector> vectors, std::int64_t bucket);

  /// `work` launches on `space` what changes a bucket; buckets come from the back, as gradients do. Behind
  /// it, `space` waits for what is still on its way out.
  void run(const ExecSpace& space, const Work& work);
  /// A part of vectors that all lie on the device.
  Bucket onDevice(std::int64_t begin, std::int64_t end) const;

 private:
  struct BufferSet {
    std::vector<Vector> buffers; ///< one a vector; empty where that lies on the device
    Event loaded, worked, saved;
  };
  static constexpr std::int64_t sets = 3;

  Bucket bucketAt(std::int64_t number) const;
  void load(std::int64_t number);
  void save(std::int64_t number);
  BufferSet& setOf(std::int64_t number) { return _sets[static_cast<std::size_t>(number % sets)]; }

  std::vector<StoredVector> _vectors;
  std::int64_t _size, _bucket, _buckets;
  bool _streams = false; ///< does any vector lie elsewhere?
  CopyStream _in, _out;
  std::array<BufferSet, sets> _sets;
};

} // namespace partita
