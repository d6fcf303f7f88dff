#include "partita/data/order.hpp"

#include <algorithm>
#include <numeric>

#include "support/catch.hpp"

namespace partita::test::data_order {

namespace {

using Rows = std::vector<std::uint32_t>;

Rows at(const BatchReader::RowsOf& order, std::int64_t index) {
  BatchRows out{{12345}, 99}; // the previous content does not matter
  order(index, out);
  return out.rows;
}

void append(Rows& rows, const Rows& more) {
  rows.insert(rows.end(), more.begin(), more.end());
}

} // namespace

TEST_CASE("Replicas share a batch out evenly and completely", "[data]") {
  for (const std::int64_t rows : {0, 1, 7, 8, 128}) {
    for (int replicas = 1; replicas <= 9; ++replicas) {
      std::int64_t next = 0;
      for (int replica = 0; replica < replicas; ++replica) {
        const IndexRange slice = shareOf(rows, replica, replicas);
        CHECK(slice.begin == next);
        CHECK(slice.end - slice.begin >= rows / replicas);
        CHECK(slice.end - slice.begin <= (rows + replicas - 1) / replicas);
        next = slice.end;
      }
      CHECK(next == rows);
    }
  }
}

TEST_CASE("Slices of the replicas join to the batch, whatever their number", "[data]") {
  const auto whole = trainingOrder(103, 5, 10, 0, 1, 0);
  for (int replicas = 2; replicas <= 4; ++replicas) {
    std::vector<BatchReader::RowsOf> slices;
    for (int replica = 0; replica < replicas; ++replica)
      slices.push_back(trainingOrder(103, 5, 10, replica, replicas, 0));
    for (std::int64_t batch = 0; batch < 25; ++batch) {
      Rows joined;
      for (const auto& slice : slices) append(joined, at(slice, batch));
      CHECK(joined == at(whole, batch));
    }
  }
}

TEST_CASE("Every epoch of training is a new permutation without its last partial batch", "[data]") {
  const auto order = trainingOrder(103, 5, 10, 0, 1, 0);
  for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
    Rows rows;
    for (std::int64_t batch = 0; batch < 10; ++batch) append(rows, at(order, 10 * epoch + batch));
    Rows expected = permutation(103, 5, epoch);
    expected.resize(100);
    CHECK(rows == expected);
  }
  CHECK(at(trainingOrder(103, 5, 10, 0, 1, 7), 16) == at(order, 23)); // a later first batch
  CHECK(at(trainingOrder(103, 6, 10, 0, 1, 0), 0) != at(order, 0));
}

TEST_CASE("Batches know their epoch, also in parts", "[data]") {
  const auto order = trainingOrder(103, 5, 10, 1, 2, 7);
  const auto parts = inParts(order, 3);
  const auto epochOf = [](const BatchReader::RowsOf& of, std::int64_t index) {
    BatchRows out{{}, 99};
    of(index, out);
    return out.epoch;
  };
  for (std::int64_t batch = 0; batch < 30; ++batch) {
    const std::uint32_t epoch = static_cast<std::uint32_t>(7 + batch) / 10;
    CHECK(epochOf(order, batch) == epoch);
    for (std::int64_t part = 0; part < 3; ++part) CHECK(epochOf(parts, 3 * batch + part) == epoch);
  }
  CHECK(epochOf(streamingOrder(103, 5, 10, 1), 2) == 0);
  CHECK(epochOf(sequentialOrder(0, 7, 4), 1) == 0);
}

TEST_CASE("A stream covers every row once, and begins with the batches of epoch 0", "[data]") {
  for (const std::size_t samples : {100U, 103U, 109U, 9U}) {
    for (int replicas = 1; replicas <= 3; ++replicas) {
      const std::int64_t batch = 10;
      const auto stream = streamingOrder(samples, 5, batch, replicas);
      const std::int64_t segments = streamingSegments(samples, batch, replicas),
                         whole = wholeBatchSegments(samples, batch, replicas);
      Rows rows;
      for (std::int64_t segment = 0; segment < segments; ++segment) {
        const Rows part = at(stream, segment);
        CHECK_FALSE(part.empty());
        CHECK(part.size() <= static_cast<std::size_t>((batch + replicas - 1) / replicas));
        if (segment < whole) {
          const auto replica = static_cast<int>(segment % replicas);
          CHECK(part == at(trainingOrder(samples, 5, batch, replica, replicas, 0), segment / replicas));
        }
        append(rows, part);
      }
      std::sort(rows.begin(), rows.end());
      Rows all(samples);
      std::iota(all.begin(), all.end(), 0U);
      CHECK(rows == all);
    }
  }
}

TEST_CASE("Rows in their own order", "[data]") {
  const auto order = sequentialOrder(3, 10, 4);
  CHECK(at(order, 0) == Rows{3, 4, 5, 6});
  CHECK(at(order, 1) == Rows{7, 8, 9});
  CHECK(at(order, 2).empty());
}

TEST_CASE("The parts of a batch are its rows, in their order", "[data]") {
  const auto order = trainingOrder(103, 5, 10, 0, 1, 0), parts = inParts(order, 3);
  for (std::int64_t batch = 0; batch < 12; ++batch) {
    Rows joined;
    for (std::int64_t part = 0; part < 3; ++part) {
      const Rows rows = at(parts, 3 * batch + part);
      CHECK(rows.size() == (part == 2 ? 4U : 3U));
      append(joined, rows);
    }
    CHECK(joined == at(order, batch));
  }
}

} // namespace partita::test::data_order
