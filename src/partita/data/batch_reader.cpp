#include "partita/data/batch_reader.hpp"

#include "partita/core/error.hpp"
#include "partita/core/region.hpp"

#include <algorithm>

namespace partita {

namespace {

/// The map of the bytes that batches are made of; null if they are made of features. With HIP and Kokkos 3,
/// kernels cannot read the memory in which batches are made.
const ByteMap* mapOf(const RowSource* source, bool uploads) {
  constexpr bool reachable = Kokkos::SpaceAccessibility<ExecSpace, PinnedSpace>::accessible;
  return reachable && uploads && source != nullptr ? source->byteMap() : nullptr;
}

} // namespace

FeatureRows::FeatureRows(const DataSets& sets, const Dataset& set)
    : _sets(sets), _set(set), _layout(layoutOf(sets.shape)) {
  if (set.features.bytesOf(0) != nullptr && sets.shift.size() == 1) _map = {sets.shift[0], sets.scale[0]};
}

void FeatureRows::copyRow(std::size_t row, std::uint32_t /*epoch*/, Real* out) const {
  if (_layout.trivial()) return _set.features.copyRow(row, _sets.shift, _sets.scale, out);
  const auto channels = static_cast<std::size_t>(_layout.channels),
             places = static_cast<std::size_t>(_layout.places);
  for (std::size_t channel = 0; channel < channels; ++channel)
    _set.features.copyValues(row, channel * places, places, _sets.shift, _sets.scale, out + channel,
                             channels);
}

void FeatureRows::copyBytes(std::size_t row, std::uint8_t* out) const {
  const std::uint8_t* bytes = _set.features.bytesOf(row);
  PARTITA_REQUIRE(bytes != nullptr, "a set without bytes");
  if (_layout.trivial()) {
    std::copy_n(bytes, width(), out);
    return;
  }
  for (std::int64_t channel = 0; channel < _layout.channels; ++channel)
    for (std::int64_t place = 0; place < _layout.places; ++place)
      out[place * _layout.channels + channel] = *bytes++;
}

BatchReader::BatchReader(const RowSource* source, const Dataset& set, RowsOf rows_of, std::int64_t count,
                         std::int64_t capacity, std::int64_t depth, std::int64_t held, bool uploads)
    : _source(source), _set(set), _rows_of(std::move(rows_of)), _count(count), _held(held),
      _map(mapOf(source, uploads)) {
  for (std::int64_t i = 0; i < depth + held; ++i) _slots.push_back(makeSlot(capacity));
  if (uploads)
    _upload = std::make_unique<BatchUpload>(capacity, source != nullptr ? source->width() : 0,
                                            capacity * set.labels_per_sample, held, _map);
  if (depth > 0 && count > 0) _thread = std::thread([this] { work(); });
}

BatchReader::Slot BatchReader::makeSlot(std::int64_t capacity) const {
  const auto make = [](const std::string& name) {
    return Kokkos::view_alloc(Kokkos::WithoutInitializing, name);
  };
  const std::size_t rows = capacity, width = _source != nullptr ? _source->width() : 0;
  Slot slot;
  if (_map != nullptr)
    slot.made.bytes = PinnedBytes(make("partita::BatchReader::bytes"), (rows * width + 3) / 4);
  else
    slot.made.features = PinnedMatrix(make("partita::BatchReader::features"), rows, width);
  slot.made.labels = PinnedLabels(make("partita::BatchReader::labels"), rows * _set.labels_per_sample);
  slot.read.rows.reserve(rows);
  return slot;
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
  PARTITA_REQUIRE(rows.size() * _set.labels_per_sample <= slot.made.labels.extent(0),
                  "a batch larger than its reader");
  constexpr std::size_t ahead = 4; // rows being prefetched while one is converted
  auto* const raw = reinterpret_cast<std::uint8_t*>(slot.made.bytes.data());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(_set.labelsOf(rows[i]), _set.labels_per_sample,
                &slot.made.labels(i * _set.labels_per_sample));
    if (_source == nullptr) continue;
    if (i + ahead < rows.size()) _source->expectRow(rows[i + ahead]);
    if (_map != nullptr)
      _source->copyBytes(rows[i], raw + i * _source->width());
    else
      _source->copyRow(rows[i], slot.read.epoch, &slot.made.features(i, 0));
  }
}

void BatchReader::work() {
  useAllCores();
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
  if (_taken > 0) { // its slot may be filled again
    if (_upload != nullptr)
      _slots[(_taken - 1) % _slots.size()].uploaded.wait();
    else
      fence(space, "partita::BatchReader::next"); // kernels may still read it
  }
  waitFor(_taken);
  const Slot& slot = _slots[_taken % _slots.size()];
  const std::size_t rows = slot.read.rows.size(), labels = rows * _set.labels_per_sample;
  Batch batch;
  if (_upload != nullptr) {
    const BatchUpload::Uploaded there = _upload->next(space, slot.made, rows, labels, slot.uploaded);
    batch.features = there.features;
    batch.labels = there.labels;
  } else if constexpr (device_is_host) {
    batch.features = Matrix(slot.made.features.data(), rows, slot.made.features.extent(1));
    batch.labels = Labels(slot.made.labels.data(), labels);
  }
  batch.rows_read = &slot.read.rows;
  ++_taken;
  return batch;
}

} // namespace partita
