#include "partita/core/error.hpp"
#include "partita/data/batch_reader.hpp"
#include "partita/data/order.hpp"

#include <atomic>
#include <numeric>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::data_batch_reader {

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t values_per_row = 6, samples = 53;

/// Row r holds r, r + 0.25, r + 0.5, ...; reading row `broken` fails.
class CountingRows : public RowSource {
 public:
  explicit CountingRows(std::size_t broken = 1000000) : _broken(broken) {}
  std::int64_t width() const override { return values_per_row; }
  void copyRow(std::size_t row, std::uint32_t /*epoch*/, Real* out) const override {
    if (row == _broken) throw std::runtime_error("the disk is gone");
    for (std::int64_t j = 0; j < values_per_row; ++j)
      out[j] = static_cast<Real>(row) + Real(0.25) * static_cast<Real>(j);
    ++reads;
  }
  mutable std::atomic<int> reads{0};

 private:
  std::size_t _broken;
};

std::vector<std::int32_t> someLabels() {
  std::vector<std::int32_t> labels;
  for (std::int32_t i = 0; i < samples; ++i) labels.push_back(i * 7 % 11);
  return labels;
}

/// Everything that a reader returns, batch after batch.
Values everything(const RowSource* rows, std::int64_t depth, std::int64_t count,
                  bool uploads = !device_is_host) {
  const Dataset set{{}, someLabels()};
  BatchReader reader(rows, set, trainingOrder(samples, 3, 10, 0, 1, 0), count, 10, depth, 1, uploads);
  Values all;
  for (std::int64_t i = 0; i < count; ++i) {
    const Batch batch = reader.next(space);
    CHECK(batch.features.extent(0) == 10);
    CHECK(batch.features.extent(1) == (rows == nullptr ? 0 : values_per_row));
    const Values features = valuesOf(batch.features), classes = valuesOf(batch.labels);
    for (std::size_t r = 0; r < 10; ++r) {
      const std::uint32_t row = (*batch.rows_read)[r];
      CHECK(classes[r] == set.labels[row]);
      if (rows != nullptr) CHECK(features[r * values_per_row + 2] == row + 0.5);
    }
    all.insert(all.end(), features.begin(), features.end());
    all.insert(all.end(), classes.begin(), classes.end());
  }
  return all;
}

} // namespace

TEST_CASE("Batches are the same however far ahead they are made", "[data]") {
  const CountingRows rows;
  const Values in_place = everything(&rows, 0, 23);
  CHECK(everything(&rows, 1, 23) == in_place);
  CHECK(everything(&rows, 3, 23) == in_place);
  CHECK(everything(&rows, 40, 23) == in_place);
  CHECK(everything(nullptr, 0, 23) == everything(nullptr, 3, 23));
}

TEST_CASE("Batches are the same if they are uploaded", "[data]") {
  const CountingRows rows;
  for (const std::int64_t depth : {0, 1, 3}) {
    CHECK(everything(&rows, depth, 23, true) == everything(&rows, depth, 23));
    CHECK(everything(nullptr, depth, 23, true) == everything(nullptr, depth, 23));
  }
}

TEST_CASE("Bytes are standardised where batches are uploaded to", "[data]") {
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{7}, {3, 2, 5}}) {
    DataSets sets;
    sets.shape = shape;
    sets.shift = {33.318F};
    sets.scale = {0.0127F};
    const auto width = static_cast<std::size_t>(sets.width());
    std::vector<std::uint8_t> bytes(samples * width);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37 % 256);
    sets.train = {Samples(width, bytes), someLabels()};
    const FeatureRows rows(sets, sets.train);
    REQUIRE(rows.byteMap() != nullptr);
    for (const std::int64_t held : {1, 2}) {
      BatchReader wanted(&rows, sets.train, sequentialOrder(0, samples, 9), 6, 9, 2, held, !device_is_host),
          found(&rows, sets.train, sequentialOrder(0, samples, 9), 6, 9, 2, held, true);
      for (int i = 0; i < 6; ++i) {
        const Batch in_place = wanted.next(space), uploaded = found.next(space);
        CHECK(valuesOf(uploaded.features) == valuesOf(in_place.features));
        CHECK(valuesOf(uploaded.labels) == valuesOf(in_place.labels));
      }
    }
    sets.shift.resize(width, 0.0F); // one map per feature
    CHECK(FeatureRows(sets, sets.train).byteMap() == nullptr);
  }
}

TEST_CASE("Batches may be smaller than the reader's capacity", "[data]") {
  const CountingRows rows;
  const Dataset set{{}, someLabels()};
  for (const std::int64_t depth : {0, 2}) {
    BatchReader reader(&rows, set, sequentialOrder(0, 7, 4), 2, 4, depth);
    CHECK(reader.next(space).labels.extent(0) == 4);
    const Batch last = reader.next(space);
    CHECK(last.features.extent(0) == 3);
    CHECK(valuesOf(last.features)[2 * values_per_row] == 6.0);
    CHECK_THROWS_AS(reader.next(space), InternalError);
  }
}

TEST_CASE("A reader prepares as many batches in advance as requested", "[data]") {
  const CountingRows rows;
  const Dataset set{{}, someLabels()};
  BatchReader reader(&rows, set, trainingOrder(samples, 3, 10, 0, 1, 0), 20, 10, 2);
  constexpr int ahead = 3 * 10; // one in use, two in advance
  reader.next(space);
  for (int i = 0; i < 60000 && rows.reads < ahead; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(rows.reads == ahead);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(rows.reads == ahead);
}

TEST_CASE("A batch stays while it is held, and others are made ahead", "[data]") {
  const CountingRows rows;
  const Dataset set{{}, someLabels()};
  for (const auto& [depth, uploads] :
       {std::pair(0, !device_is_host), {2, !device_is_host}, {0, true}, {2, true}}) {
    BatchReader reader(&rows, set, sequentialOrder(0, samples, 5), 10, 5, depth, 3, uploads);
    std::vector<Batch> taken;
    for (std::size_t i = 0; i < 10; ++i) {
      taken.push_back(reader.next(space));
      std::this_thread::sleep_for(std::chrono::milliseconds(2)); // time to overwrite batches in use
      for (std::size_t held = i < 2 ? 0 : i - 2; held <= i; ++held) {
        CHECK(valuesOf(taken[held].features)[0] == 5.0 * static_cast<double>(held));
        CHECK(valuesOf(taken[held].labels)[0] == set.labels[5 * held]);
      }
    }
  }
}

TEST_CASE("A reader may be left before its end", "[data]") {
  const CountingRows rows;
  const Dataset set{{}, someLabels()};
  for (int round = 0; round < 20; ++round) {
    BatchReader reader(&rows, set, trainingOrder(samples, 3, 10, 0, 1, 0), 1000, 10, 2);
    for (int i = 0; i < round % 3; ++i) reader.next(space);
  }
  SUCCEED("no thread hangs");
}

TEST_CASE("What goes wrong while a batch is made arrives with that batch", "[data]") {
  const CountingRows rows(25); // in the third of the batches below
  const Dataset set{{}, someLabels()};
  for (const std::int64_t depth : {0, 1, 3, 10}) {
    for (int round = 0; round < 20; ++round) {
      BatchReader reader(&rows, set, sequentialOrder(0, samples, 10), 6, 10, depth);
      CHECK(valuesOf(reader.next(space).features)[0] == 0.0);
      if (round % 2 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1)); // time to fail first
      CHECK(valuesOf(reader.next(space).features)[0] == 10.0);
      CHECK_THROWS_WITH(reader.next(space), "the disk is gone");
    }
  }
}

TEST_CASE("A sample may have a label for each of its positions", "[data]") {
  Dataset set;
  set.labels_per_sample = 3;
  std::vector<std::int32_t> labels(21);
  std::iota(labels.begin(), labels.end(), 0);
  set.labels = labels;
  CHECK(set.size() == 7);
  BatchReader reader(
      nullptr, set,
      [](std::int64_t, BatchRows& out) {
        out = {{5, 0}, 0};
      },
      1, 4, 0);
  CHECK(valuesOf(reader.next(space).labels) == Values{15, 16, 17, 0, 1, 2});
}

} // namespace partita::test::data_batch_reader
