#include "partita/data/order.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

namespace partita {

std::vector<std::uint32_t> permutation(std::size_t n, const RandomStream& stream) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t i = n; i > 1; --i)
    std::swap(order[i - 1], order[stream.below(i, static_cast<std::uint32_t>(i))]);
  return order;
}

std::vector<std::uint32_t> permutation(std::size_t n, std::uint64_t seed, std::uint32_t epoch) {
  return permutation(n, RandomStream(seed, Stream::shuffle, epoch));
}

BatchReader::RowsOf trainingOrder(std::int64_t samples, std::uint64_t seed, std::int64_t batch, int replica,
                                  int replicas, std::int64_t first) {
  const std::int64_t steps = samples / batch;
  const IndexRange slice = shareOf(batch, replica, replicas);
  struct Cached {
    std::int64_t epoch = -1;
    std::vector<std::uint32_t> order;
  };
  auto cached = std::make_shared<Cached>(); // batches come in order, so one permutation at a time is enough
  return [=](std::int64_t index, BatchRows& out) {
    const std::int64_t batch_in_run = first + index, epoch = batch_in_run / steps;
    if (cached->epoch != epoch) {
      cached->order = permutation(samples, seed, static_cast<std::uint32_t>(epoch));
      cached->epoch = epoch;
    }
    const auto start = cached->order.begin() + batch_in_run % steps * batch;
    out.rows.assign(start + slice.begin, start + slice.end);
    out.epoch = static_cast<std::uint32_t>(epoch);
  };
}

BatchReader::RowsOf inParts(const BatchReader::RowsOf& order, std::int64_t parts) {
  struct Cached {
    std::int64_t number = -1;
    BatchRows whole;
  };
  auto batch = std::make_shared<Cached>();
  return [=](std::int64_t index, BatchRows& out) {
    if (batch->number != index / parts) {
      batch->number = index / parts;
      order(batch->number, batch->whole);
    }
    const std::vector<std::uint32_t>& rows = batch->whole.rows;
    const IndexRange slice = shareOf(rows.size(), index % parts, parts);
    out.rows.assign(rows.begin() + slice.begin, rows.begin() + slice.end);
    out.epoch = batch->whole.epoch;
  };
}

BatchReader::RowsOf streamingOrder(std::int64_t samples, std::uint64_t seed, std::int64_t batch,
                                   int replicas) {
  const std::int64_t whole = samples / batch * batch;
  const std::int64_t largest = largestShare(batch, replicas);
  auto order = std::make_shared<const std::vector<std::uint32_t>>(permutation(samples, seed, 0));
  return [=](std::int64_t segment, BatchRows& out) {
    const std::int64_t in_batches = whole / batch * replicas;
    std::int64_t begin = 0, end = 0;
    if (segment < in_batches) {
      const IndexRange slice = shareOf(batch, segment % replicas, replicas);
      begin = segment / replicas * batch + slice.begin;
      end = segment / replicas * batch + slice.end;
    } else {
      begin = whole + (segment - in_batches) * largest;
      end = std::min(begin + largest, samples);
    }
    out.rows.assign(order->begin() + begin, order->begin() + end);
    out.epoch = 0;
  };
}

std::int64_t wholeBatchSegments(std::int64_t samples, std::int64_t batch, int replicas) {
  return samples / batch * replicas;
}

std::int64_t streamingSegments(std::int64_t samples, std::int64_t batch, int replicas) {
  const std::int64_t left = samples % batch, largest = largestShare(batch, replicas);
  return wholeBatchSegments(samples, batch, replicas) + (left + largest - 1) / largest;
}

BatchReader::RowsOf sequentialOrder(std::int64_t first, std::int64_t end, std::int64_t capacity) {
  return [=](std::int64_t index, BatchRows& out) {
    const std::int64_t begin = first + index * capacity, stop = std::min(begin + capacity, end);
    out.rows.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, stop - begin)));
    std::iota(out.rows.begin(), out.rows.end(), static_cast<std::uint32_t>(begin));
    out.epoch = 0;
  };
}

} // namespace partita
