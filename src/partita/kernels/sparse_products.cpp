#include "partita/kernels/sparse_products.hpp"

#include "partita/core/error.hpp"
#include "partita/core/region.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace partita {

#if defined(__GNUC__) && !defined(__CUDACC__) && !defined(__HIPCC__)

namespace {

// One work item computes with 8 groups of units, whose sums stay in registers. Some columns of their weights
// at a time are transposed, as many as fill a first-level cache.
constexpr int group_units = values_per_vector, groups = 8, block_units = group_units * groups,
              block_columns = (1 << 15) / (block_units * static_cast<int>(sizeof(Real)));
constexpr std::int64_t fewest_units = block_units / 2; ///< for fewer, registers stay empty
constexpr std::int64_t fewest_rows = 64;  ///< for fewer, transposing takes longer than the product
constexpr std::int64_t zeros = 8;         ///< at least this many values for each that is set
constexpr std::int64_t rows_per_look = 8; ///< counting all would take a percent of a step

/// As an array of vectors, the compiler would keep the sums in memory.
using UnitGroup [[gnu::vector_size(group_units * sizeof(Real)), gnu::aligned(sizeof(Real)), gnu::may_alias]] =
    Real;
struct Groups {
  UnitGroup of[groups];
};

/// Number of values in the block that begins at `first` of `size`: `block`, or fewer at the end.
int sizeOfPart(std::int64_t first, std::int64_t size, int block) {
  return static_cast<int>(std::min<std::int64_t>(size - first, block));
}

/// The values of a row for the units of a block; zeros if it has fewer.
void loadUnits(const Real* from, int own, Groups& to) {
  if (own < block_units) std::memset(to.of, 0, sizeof(to.of));
  std::memcpy(to.of, from, own == block_units ? sizeof(to.of) : static_cast<std::size_t>(own) * sizeof(Real));
}

void storeUnits(const Groups& from, Real* to, int own) {
  std::memcpy(to, from.of,
              own == block_units ? sizeof(from.of) : static_cast<std::size_t>(own) * sizeof(Real));
}

/// The values of a part of a row that are not zero.
struct SetValues {
  int count = 0;
  std::array<int, block_columns> columns;
  std::array<Real, block_columns> values;

  SetValues(const Real* row, int size) {
    constexpr int at_once = 8; // most of these are zero together
    int j = 0;
    for (; j + at_once <= size; j += at_once) {
      int any = 0;
      for (int k = 0; k < at_once; ++k) any |= row[j + k] != Real(0) ? 1 : 0;
      if (any != 0) add(row, j, j + at_once);
    }
    add(row, j, size);
  }

 private:
  void add(const Real* row, int begin, int end) {
    for (int j = begin; j < end; ++j) {
      columns[static_cast<std::size_t>(count)] = j;
      values[static_cast<std::size_t>(count)] = row[j];
      count += row[j] != Real(0) ? 1 : 0;
    }
  }
};

/// Some rows (units) and columns of a matrix [units, inputs], transposed; rows that it does not have are
/// zero.
class Tile {
 public:
  Tile(const Matrix& matrix, std::int64_t unit, int units, std::int64_t column, int columns)
      : _matrix(matrix), _unit(unit), _column(column), _units(units), _columns(columns) {}

  void clear() { std::memset(_values, 0, sizeof(_values)); }
  void load() {
    if (_units < block_units) clear();
    for (int u = 0; u < _units; ++u) {
      const Real* const row = &_matrix(_unit + u, _column);
      for (int j = 0; j < _columns; ++j) _values[j][u] = row[j];
    }
  }
  void store() const {
    for (int u = 0; u < _units; ++u) {
      Real* const row = &_matrix(_unit + u, _column);
      for (int j = 0; j < _columns; ++j) row[j] = _values[j][u];
    }
  }
  UnitGroup* groupsOf(int column) { return reinterpret_cast<UnitGroup*>(_values[column]); }

 private:
  const Matrix& _matrix;
  std::int64_t _unit, _column;
  int _units, _columns;
  alignas(64) Real _values[block_columns][block_units];
};

struct ForwardKernel {
  Matrix rows, weights, out;

  void operator()(std::int64_t block) const {
    const auto inputs = static_cast<std::int64_t>(rows.extent(1)),
               units = static_cast<std::int64_t>(out.extent(1)), unit = block * block_units;
    const int own = sizeOfPart(unit, units, block_units);
    for (std::int64_t column = 0; column < inputs; column += block_columns) {
      const int columns = sizeOfPart(column, inputs, block_columns);
      Tile tile(weights, unit, own, column, columns);
      tile.load();
      for (std::size_t i = 0; i < rows.extent(0); ++i) {
        const SetValues set(&rows(i, column), columns);
        Real* const to = &out(i, unit);
        addTo(to, own, column > 0, set, tile);
      }
    }
  }

 private:
  static void addTo(Real* to, int own, bool keep, const SetValues& set, Tile& tile) {
    Groups sums{};
    if (keep) loadUnits(to, own, sums);
    for (int k = 0; k < set.count; ++k) {
      const UnitGroup* const column = tile.groupsOf(set.columns[static_cast<std::size_t>(k)]);
      const Real value = set.values[static_cast<std::size_t>(k)];
#pragma GCC unroll 8
      for (int g = 0; g < groups; ++g) sums.of[g] += value * column[g];
    }
    storeUnits(sums, to, own);
  }
};

struct GradientKernel {
  Matrix rows, grad_out, gradient;
  bool keep;

  void operator()(std::int64_t block) const {
    const auto inputs = static_cast<std::int64_t>(rows.extent(1)),
               units = static_cast<std::int64_t>(grad_out.extent(1)), unit = block * block_units;
    const int own = sizeOfPart(unit, units, block_units);
    for (std::int64_t column = 0; column < inputs; column += block_columns) {
      const int columns = sizeOfPart(column, inputs, block_columns);
      Tile tile(gradient, unit, own, column, columns);
      keep ? tile.load() : tile.clear();
      for (std::size_t i = 0; i < rows.extent(0); ++i) {
        const SetValues set(&rows(i, column), columns);
        if (set.count > 0) addTo(tile, set, &grad_out(i, unit), own);
      }
      tile.store();
    }
  }

 private:
  static void addTo(Tile& tile, const SetValues& set, const Real* from, int own) {
    Groups slopes;
    loadUnits(from, own, slopes);
    for (int k = 0; k < set.count; ++k) {
      UnitGroup* const column = tile.groupsOf(set.columns[static_cast<std::size_t>(k)]);
      const Real value = set.values[static_cast<std::size_t>(k)];
#pragma GCC unroll 8
      for (int g = 0; g < groups; ++g) column[g] += value * slopes.of[g];
    }
  }
};

struct CountKernel {
  Matrix rows;
  void operator()(std::int64_t look, std::int64_t& count) const {
    const Real* const row = &rows(look * rows_per_look, 0);
    const auto columns = static_cast<std::int64_t>(rows.extent(1));
    int set = 0;
    for (std::int64_t j = 0; j < columns; ++j) set += row[j] != Real(0) ? 1 : 0;
    count += set;
  }
};

std::int64_t blocksOf(std::int64_t units) {
  return (units + block_units - 1) / block_units;
}

} // namespace

bool isSparse(const ExecSpace& space, const Matrix& rows, std::int64_t units) {
  const auto n = static_cast<std::int64_t>(rows.extent(0)),
             columns = static_cast<std::int64_t>(rows.extent(1));
  if (!device_is_host || n < fewest_rows || units < fewest_units || columns == 0) return false;
  if (blocksOf(units) < space.concurrency()) return false; // threads would have nothing to do
  const std::int64_t looks = (n + rows_per_look - 1) / rows_per_look;
  std::int64_t set = 0;
  Kokkos::parallel_reduce("partita::isSparse_kernel", Range(space, 0, looks), CountKernel{rows}, set);
  return set * zeros <= looks * columns;
}

void sparseProduct(const ExecSpace& space, const Matrix& rows, const Matrix& weights, const Matrix& out) {
  const Region region(space, "partita::sparseProduct", Phase::gemm);
  const std::int64_t blocks = blocksOf(static_cast<std::int64_t>(out.extent(1)));
  Kokkos::parallel_for("partita::sparseProduct_kernel", Range(space, 0, blocks),
                       ForwardKernel{rows, weights, out});
}

void sparseGradient(const ExecSpace& space, const Matrix& rows, const Matrix& grad_out,
                    const Matrix& gradient, bool keep) {
  const Region region(space, "partita::sparseGradient", Phase::gemm);
  const std::int64_t blocks = blocksOf(static_cast<std::int64_t>(grad_out.extent(1)));
  Kokkos::parallel_for("partita::sparseGradient_kernel", Range(space, 0, blocks),
                       GradientKernel{rows, grad_out, gradient, keep});
}

#else

bool isSparse(const ExecSpace&, const Matrix&, std::int64_t) {
  return false;
}

void sparseProduct(const ExecSpace&, const Matrix&, const Matrix&, const Matrix&) {
  PARTITA_FAIL("products of sparse rows are for hosts");
}

void sparseGradient(const ExecSpace&, const Matrix&, const Matrix&, const Matrix&, bool) {
  PARTITA_FAIL("products of sparse rows are for hosts");
}

#endif

} // namespace partita
