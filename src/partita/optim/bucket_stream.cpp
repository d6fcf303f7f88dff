#include "partita/optim/bucket_stream.hpp"

#include "partita/core/error.hpp"

#include <algorithm>
#include <utility>

namespace partita {

namespace {

bool anyInFile(const std::vector<StoredVector>& vectors) {
  return std::any_of(vectors.begin(), vectors.end(),
                     [](const StoredVector& vector) { return vector.inFile(); });
}

} // namespace

BucketStream::BucketStream(std::int64_t size, std::vector<StoredVector> vectors, std::int64_t bucket)
    : _vectors(std::move(vectors)), _size(size), _bucket(std::max<std::int64_t>(1, std::min(size, bucket))),
      _buckets((size + _bucket - 1) / _bucket) {
  PARTITA_REQUIRE(_vectors.size() <= Bucket().values.size(), "too many vectors in one stream");
  if (std::any_of(_vectors.begin(), _vectors.end(),
                  [](const StoredVector& vector) { return vector.offloaded(); })) {
    _in.emplace(anyInFile(_vectors));
    _out.emplace(anyInFile(_vectors));
  }
  for (BufferSet& set : _sets) {
    for (const StoredVector& vector : _vectors) {
      const std::int64_t values = vector.offloaded() ? _bucket : 0;
      set.buffers.emplace_back(
          Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::BucketStream::buffer"), values);
    }
  }
}

/// Buckets are numbered from the last to the first.
BucketStream::Bucket BucketStream::bucketAt(std::int64_t number) const {
  Bucket bucket;
  bucket.begin = (_buckets - 1 - number) * _bucket;
  bucket.end = std::min(bucket.begin + _bucket, _size);
  const BufferSet& set = _sets[number % sets];
  for (std::size_t i = 0; i < _vectors.size(); ++i) {
    if (_vectors[i].size() == 0) continue;
    bucket.values[i] =
        _vectors[i].offloaded() ? set.buffers[i].data() : _vectors[i].device().data() + bucket.begin;
  }
  return bucket;
}

BucketStream::Bucket BucketStream::onDevice(std::int64_t begin, std::int64_t end) const {
  PARTITA_REQUIRE(!_in, "vectors in host memory or in a file have no part on the device");
  Bucket bucket{begin, end};
  for (std::size_t i = 0; i < _vectors.size(); ++i) {
    if (_vectors[i].size() > 0) bucket.values[i] = _vectors[i].device().data() + begin;
  }
  return bucket;
}

void BucketStream::load(std::int64_t number) {
  const Bucket bucket = bucketAt(number);
  const BufferSet& set = setOf(number);
  set.saved.holdBack(*_in); // until the buffers are free again
  for (std::size_t i = 0; i < _vectors.size(); ++i) {
    if (_vectors[i].offloaded())
      _in->load(_vectors[i], bucket.begin, subvector(set.buffers[i], 0, bucket.end - bucket.begin));
  }
  set.loaded.set(*_in);
}

void BucketStream::save(std::int64_t number) {
  const Bucket bucket = bucketAt(number);
  const BufferSet& set = setOf(number);
  set.worked.holdBack(*_out);
  for (std::size_t i = 0; i < _vectors.size(); ++i) {
    if (_vectors[i].offloaded())
      _out->save(subvector(set.buffers[i], 0, bucket.end - bucket.begin), _vectors[i], bucket.begin);
  }
  set.saved.set(*_out);
}

void BucketStream::run(const ExecSpace& space, const Work& work) {
  if (!_in) {
    for (std::int64_t number = 0; number < _buckets; ++number) work(bucketAt(number));
    return;
  }
  _begin.set(space);
  _begin.holdBack(*_in);
  for (std::int64_t number = 0; number < std::min(sets, _buckets); ++number) load(number);
  for (std::int64_t number = 0; number < _buckets; ++number) {
    const BufferSet& set = setOf(number);
    set.loaded.holdBack(space);
    work(bucketAt(number));
    set.worked.set(space);
    save(number);
    if (number + sets < _buckets) load(number + sets);
  }
  for (const BufferSet& set : _sets) set.saved.holdBack(space);
}

} // namespace partita
