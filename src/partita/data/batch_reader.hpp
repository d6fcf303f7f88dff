#pragma once

#include "partita/data/batch_upload.hpp"
#include "partita/data/dataset.hpp"
#include "partita/plan/shape.hpp"

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace partita {

/// The source of the rows of a batch: a data set, or the spilled activations of a finished stage. Read from
/// the prefetch thread.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual std::int64_t width() const = 0;
  /// Copies a row as it is in `epoch`: a source that augments its rows changes them in each epoch.
  virtual void copyRow(std::size_t row, std::uint32_t epoch, Real* out) const = 0;
  virtual void expectRow(std::size_t row) const { (void)row; } ///< hint that the row will be copied soon

  /// Not null: the values of `copyRow` are those of `copyBytes` after this map.
  virtual const ByteMap* byteMap() const { return nullptr; }
  virtual void copyBytes(std::size_t row, std::uint8_t* out) const {
    (void)row;
    (void)out;
  }
};

/// The standardised features of a data set, the same in every epoch, images as they lie in memory.
class FeatureRows : public RowSource {
 public:
  FeatureRows(const DataSets& sets, const Dataset& set);
  std::int64_t width() const override { return _set.features.width(); }
  void copyRow(std::size_t row, std::uint32_t epoch, Real* out) const override;
  void expectRow(std::size_t row) const override { _set.features.prefetchRow(row); }
  const ByteMap* byteMap() const override { return _map ? &*_map : nullptr; }
  void copyBytes(std::size_t row, std::uint8_t* out) const override;

 private:
  const DataSets& _sets;
  const Dataset& _set;
  ImageLayout _layout;
  std::optional<ByteMap> _map; ///< if the set has bytes, which are all standardised alike
};

/// The rows of a batch in a data set, and the epoch of the run that it belongs to.
struct BatchRows {
  std::vector<std::uint32_t> rows;
  std::uint32_t epoch = 0;
};

/// One batch on the device.
struct Batch {
  Matrix features;                                       ///< [rows, width], or empty if only labels are read
  Labels labels;                                         ///< [rows * labels per sample]
  const std::vector<std::uint32_t>* rows_read = nullptr; ///< the rows of the data set in this batch
};

/// Makes batches before they are needed, in the order of a list of row lists: a thread fills the next ones
/// while the device works on the current one, so that the device does not wait. The content does not depend
/// on the thread.
class BatchReader {
 public:
  using RowsOf = std::function<void(std::int64_t batch, BatchRows& out)>; ///< replaces what `out` holds

  /// Batches 0 .. count-1 of at most `capacity` rows with the labels of `set`; `rows_of` gives the rows of
  /// each batch. A null `source` means labels only. `depth` batches are made in advance; 0 makes each one on
  /// request. Up to `held` batches are in use at once. They are used where they are made if the device is the
  /// host, and uploaded otherwise.
  BatchReader(const RowSource* source, const Dataset& set, RowsOf rows_of, std::int64_t count,
              std::int64_t capacity, std::int64_t depth, std::int64_t held = 1,
              bool uploads = !device_is_host);
  ~BatchReader();
  BatchReader(const BatchReader&) = delete;
  BatchReader& operator=(const BatchReader&) = delete;

  /// The next batch; its contents are valid until `held` more have been taken.
  Batch next(const ExecSpace& space);

 private:
  struct Slot {
    HostBatch made;
    BatchRows read;
    Event uploaded;
  };

  Slot makeSlot(std::int64_t capacity) const;
  void fill(Slot& slot, std::int64_t batch);
  void work(); // body of the thread
  void waitFor(std::int64_t batch);

  const RowSource* _source;
  const Dataset& _set;
  RowsOf _rows_of;
  std::int64_t _count, _held, _taken = 0, _made = 0, _released = 0;
  const ByteMap* _map; ///< not null: batches are made of bytes
  std::vector<Slot> _slots;
  std::unique_ptr<BatchUpload> _upload; ///< null: batches are used where they are made
  bool _stop = false;
  std::exception_ptr _failure;
  std::mutex _mutex;
  std::condition_variable _changed;
  std::thread _thread;
};

} // namespace partita
