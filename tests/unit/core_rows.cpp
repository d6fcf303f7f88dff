#include "partita/core/rows.hpp"

#include <algorithm>
#include <cmath>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::core_rows {

/// Kernels of rows and columns have one form for hosts and one for devices; a host can run both.

namespace {

constexpr DefaultSpace space;

/// Subtracts the largest value, and writes the sums and the place of the largest to the end of the row.
struct Shift {
  Matrix matrix;
  std::int64_t width;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    Real* x = &matrix(i, 0);
    const std::int64_t place = row.placeOfLargest(x, width), end = width;
    const Real largest = x[place];
    row.each(width, [=](std::int64_t j) { x[j] -= largest; });
    const Real sum = row.sum(width, [=](std::int64_t j) { return x[j]; });
    const double ordered = row.sumStrided(width, [=](std::int64_t j) { return static_cast<double>(x[j]); });
    row.once([=]() {
      x[end] = sum;
      x[end + 1] = static_cast<Real>(ordered);
      x[end + 2] = static_cast<Real>(place);
    });
  }
};

/// The sums of a row of `count` values, which is `count` + 1 values from the next one.
struct Sums {
  Matrix values, sums;
  std::int64_t count;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, const Row& row) const {
    const Real* x = &values(i, 0);
    const auto found = row.softmaxOf(x, count);
    const Real sum = row.sumOf(x, count, [=](Real value, std::int64_t) { return value; });
    Real* to = &sums(i, 0);
    row.once([=]() {
      to[0] = sum;
      to[1] = found.sum;
    });
  }
};

enum class By { threads, warps, teams };

struct Shifted {
  Values values;
  Shifted(std::int64_t rows, std::int64_t width, By by, std::int64_t rows_per_team = 1) {
    Values start(static_cast<std::size_t>(rows * (width + 3)));
    const Values numbers = normals(rows * width, 3);
    for (std::int64_t i = 0; i < rows; ++i)
      std::copy_n(numbers.begin() + i * width, width, start.begin() + i * (width + 3));
    const Matrix matrix = matrixOf(rows, width + 3, start);
    const Shift body{matrix, width};
    if (by == By::teams)
      Kokkos::parallel_for("teams", detail::rowTeams(space, rows), detail::TeamRows<Shift>{body});
    else if (by == By::warps)
      Kokkos::parallel_for("warps", detail::warpTeams(space, rows, rows_per_team),
                           detail::WarpRows<Shift>{body, rows, rows_per_team});
    else
      Kokkos::parallel_for("threads", Range(space, 0, rows), detail::ThreadRows<Shift>{body});
    values = valuesOf(matrix);
  }
};

struct Element {
  Matrix matrix;
  KOKKOS_INLINE_FUNCTION Real operator()(std::int64_t i, std::int64_t j) const { return matrix(i, j); }
};

Values columnSums(const Matrix& matrix, const Values& start, bool accumulate) {
  const Vector sums = vectorOf(start);
  const std::int64_t rows = matrix.extent(0), columns = matrix.extent(1);
  Kokkos::parallel_for(
      "columns", detail::columnTeams<detail::TeamColumnSums<Element, Real>>(space, columns),
      detail::TeamColumnSums<Element, Real>{Element{matrix}, rows, columns, sums.data(), accumulate});
  return valuesOf(sums);
}

} // namespace

TEST_CASE("Rows: warps and teams come to the numbers of threads", "[core]") {
  for (const std::int64_t width : {2, 31, 100, 3000}) {
    const std::int64_t rows = 7;
    const Shifted threads(rows, width, By::threads), teams(rows, width, By::teams);
    INFO("rows of " << width);
    CHECK(relativeError(teams.values, threads.values) < 1e-6);
    for (const std::int64_t rows_per_team : {1, 3, 8}) { // seven rows are no multiple of three
      const Shifted warps(rows, width, By::warps, rows_per_team);
      CHECK(relativeError(warps.values, threads.values) < 1e-6);
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      const double* row = &threads.values[static_cast<std::size_t>(i * (width + 3))];
      CHECK(row[static_cast<std::int64_t>(row[width + 2])] == 0.0); // the largest, less itself
      CHECK(*std::max_element(row, row + width) == 0.0);
      CHECK(row[width] == Approx(row[width + 1]).epsilon(1e-4));
    }
  }
}

TEST_CASE("The sums of a row have the same bits at every address", "[core]") {
  constexpr std::int64_t rows = 8;
  for (const std::int64_t count : {30, 300}) { // few rows begin at multiples of 16 bytes
    Values row = normals(count, 6), all;
    row.push_back(0.0); // not of the row
    for (std::int64_t i = 0; i < rows; ++i) all.insert(all.end(), row.begin(), row.end());
    const Matrix sums = makeMatrix("partita::test::sums", rows, 2);
    const Sums body{matrixOf(rows, count + 1, all), sums, count};
    for (const By by : {By::warps, By::teams}) {
      if (by == By::teams)
        Kokkos::parallel_for("teams", detail::rowTeams(space, rows), detail::TeamRows<Sums>{body});
      else
        Kokkos::parallel_for("warps", detail::warpTeams(space, rows, 1),
                             detail::WarpRows<Sums>{body, rows, 1});
      const Values found = valuesOf(sums);
      INFO("rows of " << count);
      for (std::size_t i = 2; i < found.size(); ++i) CHECK(found[i] == found[i % 2]);
    }
  }
}

TEST_CASE("The largest of a reduction is the first of equal ones", "[core]") {
  using Reduction = detail::FirstLargest;
  const auto joined = [](const Reduction::Found& a, const Reduction::Found& b) {
    Reduction::Found into = a;
    const Reduction reduction(into);
    reduction.join(into, b);
    return std::pair<Real, std::int64_t>(into.value, into.place);
  };
  Reduction::Found none;
  Reduction(none).init(none);
  const Reduction::Found early{2, 3}, late{2, 7}, small{1, 0};
  for (const Reduction::Found& other : {late, small, none}) {
    CHECK(joined(early, other) == std::pair<Real, std::int64_t>(2, 3));
    CHECK(joined(other, early) == std::pair<Real, std::int64_t>(2, 3));
  }
}

TEST_CASE("A matrix without columns has no sums", "[core]") {
  const Matrix none = makeMatrix("partita::test::none", 5, 0);
  const Vector sums = vectorOf({3.0});
  sumColumns(space, "partita::test::none_kernel", 5, 0, Element{none}, sums.data(), false);
  CHECK(valuesOf(sums) == Values{3.0});
}

TEST_CASE("Threads share columns in whole cache lines", "[core]") {
  CHECK(columnsOfShare(64, 1) == 64);
  CHECK(columnsOfShare(64, 4) == 16);
  CHECK(columnsOfShare(64, 100) == 16);
  CHECK(columnsOfShare(700, 8) == 96);
  CHECK(columnsPerItem(space, 1, 64) == 16);
  CHECK(columnsPerItem(space, std::int64_t{1} << 40, 64) == 64);
}

TEST_CASE("Columns: teams come to the sums of all rows", "[core]") {
  for (const std::int64_t columns : {1, 8, 9, 100}) {
    for (const std::int64_t rows : {0, 1, 31, 128, 129, 300}) {
      const Values numbers = normals(rows * columns, 4), start = normals(columns, 5);
      Values expected = start;
      for (std::size_t i = 0; i < numbers.size(); ++i)
        expected[i % static_cast<std::size_t>(columns)] += numbers[i];
      const Matrix matrix = matrixOf(rows, columns, numbers);
      INFO(rows << " rows, " << columns << " columns");
      CHECK(relativeError(columnSums(matrix, start, true), expected) < 1e-6);
      const Values anew = columnSums(matrix, start, false);
      for (std::size_t j = 0; j < anew.size(); ++j) CHECK(std::abs(anew[j] + start[j] - expected[j]) < 1e-4);
    }
  }
}

} // namespace partita::test::core_rows
