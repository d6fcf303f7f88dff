#pragma once

#include "partita/core/typed_span.hpp"

#include <algorithm>

/// Declares the iterations of the following loop independent, so that the host compiler vectorises it without
/// a proof.
#if defined(__clang__)
#define PARTITA_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__) && !defined(__CUDA_ARCH__)
#define PARTITA_INDEPENDENT _Pragma("GCC ivdep")
#else
#define PARTITA_INDEPENDENT
#endif

namespace partita {

/// value(0) + ... + value(count - 1) within a kernel, in the type of the values. Compilers may not reorder a
/// sum; 16 partial sums let them vectorise it, including its end, which would otherwise take most of the time
/// of short sums.
template <class Value>
KOKKOS_INLINE_FUNCTION auto laneSum(std::int64_t count, const Value& value) {
  constexpr int partial_sums = 16;
  decltype(value(std::int64_t{0})) sums[partial_sums] = {};
  std::int64_t i = 0;
  for (; i + partial_sums <= count; i += partial_sums) {
    PARTITA_INDEPENDENT
    for (int lane = 0; lane < partial_sums; ++lane) sums[lane] += value(i + lane);
  }
  const int left = static_cast<int>(count - i);
  PARTITA_INDEPENDENT
  for (int lane = 0; lane < partial_sums; ++lane)
    if (lane < left) sums[lane] += value(i + lane);
  for (int lane = 0; lane < 8; ++lane) sums[lane] += sums[lane + 8];
  for (int lane = 0; lane < 4; ++lane) sums[lane] += sums[lane + 4];
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

/// Columns of a work item on a host if about this many items share them: as many as possible, for the
/// hardware prefetcher, and whole cache lines of floats.
constexpr std::int64_t columnsOfShare(std::int64_t columns, std::int64_t shares) {
  constexpr std::int64_t cache_line = 16;
  const std::int64_t share = (columns + shares - 1) / shares;
  return (share + cache_line - 1) / cache_line * cache_line;
}

/// Few enough to give every thread some.
inline std::int64_t columnsPerItem(const ExecSpace& space, std::int64_t columns, std::int64_t most) {
  return std::min(most, columnsOfShare(columns, space.concurrency()));
}

/// Element-wise kernels. On a host back end, one work item is a range of elements whose loop the compiler
/// vectorises; on a device, one work item is one element, so that neighbouring threads access neighbouring
/// elements.

namespace detail {

template <class Body>
struct RowLoop {
  Body body;
  std::int64_t columns;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row) const {
    const Body local = body; // a copy in registers, which stores through the body's views cannot change
    PARTITA_INDEPENDENT
    for (std::int64_t column = 0; column < columns; ++column) local(row, column);
  }
};

template <class Body>
struct ElementLoop {
  Body body;
  std::int64_t columns;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t element) const {
    body(element / columns, element % columns);
  }
};

template <class Body>
struct WholeRow {
  Body body;
  std::int64_t columns;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row) const { body(row, std::int64_t{0}, columns); }
};

template <class Body>
struct OneElement {
  Body body;
  std::int64_t columns;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t element) const {
    const std::int64_t column = element % columns;
    body(element / columns, column, column + 1);
  }
};

constexpr std::int64_t run_length = 4096;

template <class Body>
struct RunLoop {
  Body body;
  std::int64_t size;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t run) const {
    const Body local = body;
    const std::int64_t begin = run * run_length, end = begin + run_length < size ? begin + run_length : size;
    PARTITA_INDEPENDENT
    for (std::int64_t i = begin; i < end; ++i) local(i);
  }
};

/// Columns that one work item sums together on a host.
constexpr std::int64_t most_columns = 512;

template <class Body, class Stored>
struct ColumnSums {
  Body body;
  std::int64_t rows, columns, columns_per_item;
  Stored* sums;
  bool accumulate;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const Body local = body;
    const std::int64_t first = item * columns_per_item, left = columns - first;
    const int count = static_cast<int>(left < columns_per_item ? left : columns_per_item);
    Real own[most_columns];
    for (int j = 0; j < count; ++j) own[j] = Real(0);
    for (std::int64_t row = 0; row < rows; ++row) {
      PARTITA_INDEPENDENT
      for (int j = 0; j < count; ++j) own[j] += local(row, first + j);
    }
    for (int j = 0; j < count; ++j)
      sums[first + j] = fromReal<Stored>(own[j] + (accumulate ? toReal(sums[first + j]) : Real(0)));
  }
};

/// Sums of 8 neighbouring columns by a team: first 128 lanes of rows, then the sums of pairs of lanes until
/// one is left. Few columns per team make many teams, because matrices with many rows often have few columns.
template <class Body, class Stored>
struct TeamColumnSums {
  static constexpr int lanes = 128, columns_per_team = 8;
  using Scratch = ScratchView<Real[lanes][columns_per_team]>;
  Body body;
  std::int64_t rows, columns;
  Stored* sums;
  bool accumulate;

  KOKKOS_INLINE_FUNCTION void operator()(const Team::member_type& member) const {
    const std::int64_t first = std::int64_t{columns_per_team} * member.league_rank(), left = columns - first;
    const int count = left < columns_per_team ? static_cast<int>(left) : columns_per_team;
    const Scratch partial(member.team_scratch(0));
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member, lanes), [&](int lane) {
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(member, count), [&](int column) {
        Real own = 0;
        for (std::int64_t row = lane; row < rows; row += lanes) own += body(row, first + column);
        partial(lane, column) = own;
      });
    });
    member.team_barrier();
    for (int half = lanes / 2; half > 0; half /= 2) {
      Kokkos::parallel_for(Kokkos::TeamThreadRange(member, half), [&](int lane) {
        Kokkos::parallel_for(Kokkos::ThreadVectorRange(member, count),
                             [&](int column) { partial(lane, column) += partial(lane + half, column); });
      });
      member.team_barrier();
    }
    Kokkos::parallel_for(Kokkos::TeamVectorRange(member, count), [&](int column) {
      Stored& sum = sums[first + column];
      sum = fromReal<Stored>(partial(0, column) + (accumulate ? toReal(sum) : Real(0)));
    });
  }
};

/// Up to this many rows, one thread adds up a column on a device too: most threads of a team would
/// have nothing to do.
constexpr std::int64_t few_rows = 32;

template <class Body, class Stored>
struct ThreadColumnSum {
  Body body;
  std::int64_t rows;
  Stored* sums;
  bool accumulate;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t column) const {
    Real own = 0;
    for (std::int64_t row = 0; row < rows; ++row) own += body(row, column);
    sums[column] = fromReal<Stored>(own + (accumulate ? toReal(sums[column]) : Real(0)));
  }
};

template <class Sums>
LargeTeam columnTeams(const ExecSpace& space, std::int64_t columns) {
  const std::int64_t teams = (columns + Sums::columns_per_team - 1) / Sums::columns_per_team;
  return teamsOf<LargeTeam>(space, teams, Sums::lanes, Sums::columns_per_team, Sums::Scratch::shmem_size());
}

} // namespace detail

/// The values of a matrix whose rows begin `stride` apart, as a body for `sumColumns`.
template <class Stored>
struct ValuesOf {
  const Stored* values;
  std::int64_t stride;
  KOKKOS_INLINE_FUNCTION Real operator()(std::int64_t row, std::int64_t column) const {
    return toReal(values[row * stride + column]);
  }
};

/// sums[column] = body(0, column) + body(1, column) + ..., added to the previous contents if
/// `accumulate` is set. The order of the additions depends only on the number of rows, not on the
/// number of threads; on a host it is the order given here. The body may change the element that it
/// is called for. Sums are `Real`, or rounded to the precision in which they are stored.
template <class Body, class Stored>
void sumColumns(const ExecSpace& space, const char* label, std::int64_t rows, std::int64_t columns,
                const Body& body, Stored* sums, bool accumulate) {
  if (columns == 0) return;
  if constexpr (row_teams) {
    if (rows <= detail::few_rows) {
      Kokkos::parallel_for(label, Range(space, 0, columns),
                           detail::ThreadColumnSum<Body, Stored>{body, rows, sums, accumulate});
      return;
    }
    using Sums = detail::TeamColumnSums<Body, Stored>;
    Kokkos::parallel_for(label, detail::columnTeams<Sums>(space, columns),
                         Sums{body, rows, columns, sums, accumulate});
  } else {
    const std::int64_t columns_per_item = columnsPerItem(space, columns, detail::most_columns),
                       items = (columns + columns_per_item - 1) / columns_per_item;
    Kokkos::parallel_for(
        label, Range(space, 0, items),
        detail::ColumnSums<Body, Stored>{body, rows, columns, columns_per_item, sums, accumulate});
  }
}

/// Calls body(row, column) for every element of a [rows, columns] matrix; elements must be independent.
template <class Body>
void forEachElement(const ExecSpace& space, const char* label, std::int64_t rows, std::int64_t columns,
                    const Body& body) {
  if constexpr (device_is_host) {
    Kokkos::parallel_for(label, Range(space, 0, rows), detail::RowLoop<Body>{body, columns});
  } else {
    Kokkos::parallel_for(label, Range(space, 0, rows * columns), detail::ElementLoop<Body>{body, columns});
  }
}

/// Calls body(row, begin, end) for parts of the rows of a [rows, columns] matrix, so that per-row values are
/// computed once per part: whole rows on a host back end, single elements on a device.
template <class Body>
void forEachRun(const ExecSpace& space, const char* label, std::int64_t rows, std::int64_t columns,
                const Body& body) {
  if constexpr (device_is_host) {
    Kokkos::parallel_for(label, Range(space, 0, rows), detail::WholeRow<Body>{body, columns});
  } else {
    Kokkos::parallel_for(label, Range(space, 0, rows * columns), detail::OneElement<Body>{body, columns});
  }
}

/// Calls body(i) for every i < size of a flat buffer; values must be independent.
template <class Body>
void forEachValue(const ExecSpace& space, const char* label, std::int64_t size, const Body& body) {
  if constexpr (device_is_host) {
    const std::int64_t runs = (size + detail::run_length - 1) / detail::run_length;
    Kokkos::parallel_for(label, Range(space, 0, runs), detail::RunLoop<Body>{body, size});
  } else {
    Kokkos::parallel_for(label, Range(space, 0, size), body);
  }
}

} // namespace partita
