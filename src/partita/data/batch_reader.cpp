#include "partita/data/batch_reader.hpp"

#include "partita/core/error.hpp"
#include "partita/core/region.hpp"

#include <algorithm>

namespace partita {

void FeatureRows::copyRow(std::size_t row, std::uint32_t /*epoch*/, Real* out) const {
  if (_layout.trivial()) return _set.features.copyRow(row, _sets.shift, _sets.scale, out);
  const auto channels = static_cast<std::size_t>(_layout.channels),
             places = static_cast<std::size_t>(_layout.places);
  for (std::size_t channel = 0; channel < channels; ++channel)
    _set.features.copyValues(row, channel * places, places, _sets.shift, _sets.scale, out + channel,
                             channels);
}

BatchReader::BatchReader(const RowSource* source, const Dataset& set, RowsOf rows_of, std::int64_t count,
                         std::int64_t capacity, std::int64_t depth, std::int64_t held)
    : _source(source), _set(set), _rows_of(std::move(rows_of)), _count(count), _held(held) {
  const std::size_t width = source != nullptr ? source->width() : 0;
  const std::size_t rows = capacity;
  const std::size_t labels = rows * set.labels_per_sample;
  for (std::int64_t i = 0; i < depth + held; ++i) {
    Slot slot;
    slot.features = PinnedMatrix(
        Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::BatchReader::features"), rows, width);
    slot.labels =
        PinnedLabels(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::BatchReader::labels"), labels);
    slot.read.rows.reserve(rows);
    _slots.push_back(std::move(slot));
  }
  for (std::int64_t i = 0; !device_is_host && i < held; ++i) {
    _device_features.push_back(makeMatrix("partita::BatchReader::device_features", capacity, width));
    _device_labels.emplace_back("partita::BatchReader::device_labels", labels);
  }
  if (depth > 0 && count > 0) _thread = std::thread([this] { work(); });
}

BatchReader::~BatchReader() {
  {
    const std::lock_guard<std::mutex> lock(_mutex);
    _stop = true;
  }
  _changed.notify_all();
  if (_thread.joinable()) _thread.join();
}

void BatchReader::fill(Slot& slot, std::int64_t batch) {
  _rows_of(batch, slot.read);
  const std::vector<std::uint32_t>& rows = slot.read.rows;
  constexpr std::size_t ahead = 4; // rows being prefetched while one is converted
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(_set.labelsOf(rows[i]), _set.labels_per_sample, &slot.labels(i * _set.labels_per_sample));
    if (_source == nullptr) continue;
    if (i + ahead < rows.size()) _source->expectRow(rows[i + ahead]);
    _source->copyRow(rows[i], slot.read.epoch, &slot.features(i, 0));
  }
}

void BatchReader::work() {
  try {
    for (std::int64_t batch = 0; batch < _count; ++batch) {
      {
        std::unique_lock<std::mutex> lock(_mutex);
        _changed.wait(lock,
                      [&] { return _stop || batch - _released < static_cast<std::int64_t>(_slots.size()); });
        if (_stop) return;
      }
      fill(_slots[batch % _slots.size()], batch);
      {
        const std::lock_guard<std::mutex> lock(_mutex);
        _made = batch + 1;
      }
      _changed.notify_all();
    }
  } catch (...) {
    const std::lock_guard<std::mutex> lock(_mutex);
    _failure = std::current_exception();
    _changed.notify_all();
  }
}

void BatchReader::waitFor(std::int64_t batch) {
  if (!_thread.joinable()) {
    fill(_slots[batch % _slots.size()], batch);
    return;
  }
  std::unique_lock<std::mutex> lock(_mutex);
  _released = std::max<std::int64_t>(0, batch + 1 - _held); // earlier ones are free again
  _changed.notify_all();
  _changed.wait(lock, [&] { return _made > batch || _failure != nullptr; });
  if (_made <= batch) std::rethrow_exception(_failure);
}

Batch BatchReader::next(const ExecSpace& space) {
  const Region region(space, "partita::BatchReader::next", Phase::data);
  PARTITA_REQUIRE(_taken < _count, "more batches requested than there are");
  if (!device_is_host || _taken > 0)
    fence(space, "partita::BatchReader::next"); // kernels may still read the returned batch
  waitFor(_taken);
  const Slot& slot = _slots[_taken % _slots.size()];
  const std::size_t rows = slot.read.rows.size(), width = slot.features.extent(1);
  const PinnedMatrix features(slot.features.data(), rows, width);
  const std::size_t label_count = rows * _set.labels_per_sample;
  const PinnedLabels labels(slot.labels.data(), label_count);
  Batch batch;
  if constexpr (device_is_host) {
    batch.features = Matrix(features.data(), rows, width);
    batch.labels = Labels(labels.data(), label_count);
  } else {
    const std::size_t place = _taken % _held;
    batch.features = topRows(_device_features[place], rows);
    batch.labels = firstLabels(_device_labels[place], label_count);
    Kokkos::deep_copy(space, batch.features, features);
    Kokkos::deep_copy(space, batch.labels, labels);
  }
  batch.rows_read = &slot.read.rows;
  ++_taken;
  return batch;
}

} // namespace partita
