#include "partita/io/tensor_parts.hpp"

#include "partita/comm/tags.hpp"
#include "partita/comm/wait.hpp"

#include <algorithm>

namespace partita {

namespace {

template <class T>
void sendAll(const Communicator& comm, const std::vector<T>& values) {
  if (values.empty()) return;
  Request().send(values.data(), values.size(), mpiType<T>(), 0, Tag::slice, comm, "part of a tensor").wait();
}

template <class T>
std::vector<T> receiveAll(const Communicator& comm, int rank, std::int64_t count) {
  std::vector<T> values(count);
  if (values.empty()) return values;
  Request().receive(values.data(), count, mpiType<T>(), rank, Tag::slice, comm, "part of a tensor").wait();
  return values;
}

/// The part of a slice within rows [first, first + rows) of the tensor.
TensorSlice within(const TensorSlice& slice, std::int64_t first, std::int64_t rows) {
  const std::int64_t begin = std::max(first, slice.offset[0]),
                     end = std::min(first + rows, slice.offset[0] + slice.extents[0]);
  return slice.rows(begin - slice.offset[0], std::max<std::int64_t>(0, end - begin));
}

/// The slices of each rank, on rank 0.
std::vector<std::vector<TensorSlice>> slicesOfRanks(const Communicator& comm,
                                                    const std::vector<std::int64_t>& extents,
                                                    const std::vector<TensorPart>& own) {
  std::vector<std::int64_t> numbers;
  for (const TensorPart& part : own) {
    numbers.insert(numbers.end(), part.slice.offset.begin(), part.slice.offset.end());
    numbers.insert(numbers.end(), part.slice.extents.begin(), part.slice.extents.end());
  }
  const std::vector<std::int64_t> counts = comm.gather(numbers.size());
  if (comm.rank() > 0) {
    sendAll(comm, numbers);
    return {};
  }
  std::vector<std::vector<TensorSlice>> slices(counts.size());
  const std::int64_t axes = extents.size();
  for (std::size_t rank = 0; rank < slices.size(); ++rank) {
    if (rank > 0) numbers = receiveAll<std::int64_t>(comm, static_cast<int>(rank), counts[rank]);
    for (auto next = numbers.begin(); next < numbers.end(); next += 2 * axes)
      slices[rank].push_back({extents, {next, next + axes}, {next + axes, next + 2 * axes}});
  }
  return slices;
}

/// This rank's values of some rows, part by part.
std::vector<Real> ownValues(const std::vector<TensorPart>& own, std::int64_t first, std::int64_t rows) {
  std::vector<Real> values;
  for (const TensorPart& part : own) {
    const TensorSlice some = within(part.slice, first, rows);
    if (some.size() == 0) continue;
    const std::int64_t row_size = some.size() / some.extents[0];
    const Real* const from = part.values + (some.offset[0] - part.slice.offset[0]) * row_size;
    values.insert(values.end(), from, from + some.size());
  }
  return values;
}

} // namespace

void gatherTensor(const Communicator& comm, const std::vector<std::int64_t>& extents,
                  const std::vector<TensorPart>& own, std::int64_t rows_at_once, const TakeRows& take) {
  const std::vector<std::vector<TensorSlice>> slices = slicesOfRanks(comm, extents, own);
  const std::int64_t row_size = wholeOf(extents).size() / extents[0];
  std::vector<Real> block(comm.rank() == 0 ? rows_at_once * row_size : 0);
  for (std::int64_t first = 0; first < extents[0]; first += rows_at_once) {
    const std::int64_t rows = std::min(rows_at_once, extents[0] - first);
    if (comm.rank() > 0) {
      sendAll(comm, ownValues(own, first, rows));
      continue;
    }
    for (int rank = 0; rank < comm.size(); ++rank) {
      std::int64_t count = 0;
      std::vector<TensorSlice> some;
      for (const TensorSlice& slice : slices[rank]) {
        some.push_back(within(slice, first, rows));
        count += some.back().size();
      }
      const std::vector<Real> values =
          rank == 0 ? ownValues(own, first, rows) : receiveAll<Real>(comm, rank, count);
      const Real* from = values.data();
      for (const TensorSlice& slice : some) {
        for (const SliceRun& run : runsOf(slice))
          std::copy_n(from + run.in_slice, run.count, block.data() + run.in_whole - first * row_size);
        from += slice.size();
      }
    }
    take(first, rows, block.data());
  }
}

} // namespace partita
