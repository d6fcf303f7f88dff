#include "partita/data/batch_reader.hpp"

#include "partita/core/error.hpp"
#include "partita/core/region.hpp"

#include <algorithm>

namespace partita {

BatchReader::BatchReader(const RowSource* source, const Dataset& set, RowsOf rows_of, std::int64_t count,
                         std::int64_t capacity, std::int64_t depth)
    : _source(source), _set(set), _rows_of(std::move(rows_of)), _count(count) {
  const auto width = static_cast<std::size_t>(source != nullptr ? source->width() : 0);
  const auto rows = static_cast<std::size_t>(capacity);
  const std::size_t labels = rows * set.labels_a_sample;
  for (std::int64_t i = 0; i < depth + 1; ++i) { // one in use, `depth` ahead
    Slot slot;
    slot.features = PinnedMatrix(
        Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::BatchReader::features"), rows, width);
    slot.labels =
        PinnedLabels(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::BatchReader::labels"), labels);
    slot.rows.reserve(rows);
    _slots.push_back(std::move(slot));
  }
  if (!device_is_host) {
    _device_features =
        makeMatrix("partita::BatchReader::device_features", capacity, static_cast<std::int64_t>(width));
    _device_labels = Labels("partita::BatchReader::device_labels", labels);
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
  slot.rows.clear();
  _rows_of(batch, slot.rows);
  constexpr std::size_t ahead = 4; // rows on their way from memory while one is converted
  for (std::size_t i = 0; i < slot.rows.size(); ++i) {
    std::copy_n(_set.labelsOf(slot.rows[i]), _set.labels_a_sample, &slot.labels(i * _set.labels_a_sample));
    if (_source == nullptr) continue;
    if (i + ahead < slot.rows.size()) _source->expectRow(slot.rows[i + ahead]);
    _source->copyRow(slot.rows[i], &slot.features(i, 0));
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
      fill(_slots[static_cast<std::size_t>(batch) % _slots.size()], batch);
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
    fill(_slots[static_cast<std::size_t>(batch) % _slots.size()], batch);
    return;
  }
  std::unique_lock<std::mutex> lock(_mutex);
  _released = batch; // the batch handed out before is free again
  _changed.notify_all();
  _changed.wait(lock, [&] { return _made > batch || _failure != nullptr; });
  if (_made <= batch) std::rethrow_exception(_failure);
}

const Batch& BatchReader::next(const ExecSpace& space) {
  const Region region(space, "partita::BatchReader::next", Phase::data);
  PARTITA_REQUIRE(_taken < _count, "more batches taken than there are");
  if (!device_is_host || _taken > 0)
    fence(space, "partita::BatchReader::next"); // kernels may still read the last one
  waitFor(_taken);
  const Slot& slot = _slots[static_cast<std::size_t>(_taken++) % _slots.size()];
  const std::size_t rows = slot.rows.size(), width = slot.features.extent(1);
  const PinnedMatrix features(slot.features.data(), rows, width);
  const std::size_t label_count = rows * _set.labels_a_sample;
  const PinnedLabels labels(slot.labels.data(), label_count);
  if constexpr (device_is_host) {
    _batch.features = Matrix(features.data(), rows, width);
    _batch.labels = Labels(labels.data(), label_count);
  } else {
    _batch.features = topRows(_device_features, static_cast<std::int64_t>(rows));
    _batch.labels = firstLabels(_device_labels, static_cast<std::int64_t>(label_count));
    Kokkos::deep_copy(space, _batch.features, features);
    Kokkos::deep_copy(space, _batch.labels, labels);
  }
  _batch.rows_read = &slot.rows;
  return _batch;
}

} // namespace partita
