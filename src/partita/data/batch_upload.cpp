#include "partita/data/batch_upload.hpp"

#include "partita/core/loops.hpp"

#include <algorithm>
#include <utility>

namespace partita {

namespace {

/// A word has four bytes, the first in its lowest bits. An item has every `items`-th word.
struct StandardiseBytes {
  /// Enough to keep the link to host memory busy, and few enough to leave most of a device to the kernels
  /// that compute meanwhile.
  static constexpr std::int64_t most_items = 1 << 14;
  const std::uint32_t* words;
  Real* values;
  std::int64_t size, items; // size: of values
  Real shift, scale;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    for (std::int64_t number = item; 4 * number < size; number += items) {
      const std::uint32_t word = words[number];
      for (int k = 0; k < 4 && 4 * number + k < size; ++k)
        values[4 * number + k] = (static_cast<Real>(word >> 8 * k & 0xFFU) - shift) * scale;
    }
  }
};

/// A stream is expensive to make, and each evaluation makes a reader.
std::shared_ptr<CopyStream> uploadStream() {
  static std::weak_ptr<CopyStream> shared;
  std::shared_ptr<CopyStream> stream = shared.lock();
  if (stream == nullptr) shared = stream = std::make_shared<CopyStream>(false);
  return stream;
}

} // namespace

BatchUpload::BatchUpload(std::int64_t capacity, std::int64_t width, std::int64_t labels, std::int64_t held,
                         const ByteMap* map)
    : _map(map), _stream(uploadStream()) {
  for (std::int64_t i = 0; i <= held; ++i)
    _places.push_back({makeMatrix("partita::BatchUpload::features", capacity, width),
                       Labels("partita::BatchUpload::labels", labels),
                       {}});
}

void BatchUpload::copyFeatures(const HostBatch& from, const Matrix& to) {
  const std::int64_t rows = to.extent(0), width = to.extent(1);
  if (rows * width == 0) return;
  if (_map == nullptr)
    return Kokkos::deep_copy(_stream->space(), to, PinnedMatrix(from.features.data(), rows, width));
  const std::int64_t size = rows * width, items = std::min((size + 3) / 4, StandardiseBytes::most_items);
  forEachValue(_stream->space(), "partita::BatchUpload::standardise", items,
               StandardiseBytes{from.bytes.data(), to.data(), size, items, _map->shift, _map->scale});
}

BatchUpload::Uploaded BatchUpload::next(const ExecSpace& space, const HostBatch& from, std::int64_t rows,
                                        std::int64_t labels, const Event& arrived) {
  const auto count = static_cast<std::int64_t>(_places.size()), held = count - 1;
  if (_taken >= held) _places[(_taken - held) % count].free.set(space);
  const Place& place = _places[_taken++ % count];
  const Uploaded batch{topRows(place.features, rows), firstLabels(place.labels, labels)};
  place.free.holdBack(*_stream);
  copyFeatures(from, batch.features);
  Kokkos::deep_copy(_stream->space(), batch.labels, PinnedLabels(from.labels.data(), labels));
  arrived.set(*_stream);
  arrived.holdBack(space);
  return batch;
}

} // namespace partita
