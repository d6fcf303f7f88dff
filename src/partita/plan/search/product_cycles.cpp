#include "partita/plan/search/latency.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace partita {

namespace {

constexpr double array_words = 64.0, core_words = 256.0, device_words = 128.0; ///< values per cycle
constexpr double register_bytes = 32.0;                                        ///< of a processing element
constexpr double kibi = 1024.0;

double parts(double whole, double part) {
  return std::ceil(whole / part);
}

/// A product of matrices: rows x inner times inner x columns.
struct Sizes {
  double rows, inner, columns;
};

/// The smallest traffic of a product with a memory of `capacity` values: the larger of the numbers of values
/// read and written. A tile of one operand or of the result stays in memory while the others pass, which
/// takes no room. All three choices and all power-of-two tiles are tried.
double leastTraffic(const Sizes& size, double capacity) {
  capacity = std::max(1.0, capacity); // the smallest tile is one value
  double least = std::numeric_limits<double>::infinity();
  // `a` and `b` are the extents of the tile that stays.
  const auto tiles = [&](double first, double second, const auto& traffic) {
    for (double a = 1.0;; a *= 2.0) {
      const double tile = std::min(a, first);
      for (double b = 1.0;; b *= 2.0) {
        const double other = std::min(b, second);
        if (tile * other > capacity) break;
        least = std::min(least, traffic(parts(first, tile), parts(second, other)));
        if (b >= second) break;
      }
      if (a >= first || tile > capacity) break;
    }
  };
  const double left = size.rows * size.inner, right = size.inner * size.columns,
               result = size.rows * size.columns;
  tiles(size.rows, size.columns, [&](double row_parts, double column_parts) {
    return std::max(left * column_parts + right * row_parts, result);
  });
  tiles(size.inner, size.columns, [&](double inner_parts, double column_parts) {
    return std::max(right + left * column_parts + result * (inner_parts - 1.0), result * inner_parts);
  });
  tiles(size.rows, size.inner, [&](double row_parts, double inner_parts) {
    return std::max(left + right * row_parts + result * (inner_parts - 1.0), result * inner_parts);
  });
  return least;
}

/// Cycles of the array of one core, with two dimensions of the product along its sides.
double arrayCycles(const Accelerator& accelerator, const Sizes& size) {
  const std::array<double, 3> extents{size.rows, size.inner, size.columns};
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < extents.size(); ++i)
    for (std::size_t j = 0; j < extents.size(); ++j)
      if (i != j)
        least = std::min(least, parts(extents[i], accelerator.width) * parts(extents[j], accelerator.depth) *
                                    extents[3 - i - j]);
  return least;
}

/// Cycles of all products, `count` of size `whole`. Each core computes `batch` of size `own`. `grid` cores
/// share one product; values that several of them need are read from the buffer once.
double cyclesOn(const Accelerator& accelerator, const Sizes& whole, double count, const Sizes& own,
                double batch, double grid, double value_bytes) {
  const double elements = static_cast<double>(accelerator.width) * accelerator.depth;
  const double core_memory = std::max(1.0, elements / 64.0) * kibi / value_bytes;
  const double buffer = accelerator.buffer_mib * kibi * kibi / value_bytes;
  return std::max({batch * arrayCycles(accelerator, own),
                   batch * leastTraffic(own, register_bytes / value_bytes * elements) / array_words,
                   count * leastTraffic(whole, grid * core_memory) / core_words,
                   count * leastTraffic(whole, buffer) / device_words});
}

} // namespace

double productCycles(const Accelerator& accelerator, const GraphOperator& product, bool all_cores,
                     double value_bytes) {
  const Sizes whole{product.rows, product.inner, product.columns};
  if (!all_cores || accelerator.tensor_cores == 1)
    return cyclesOn(accelerator, whole, product.batch, whole, product.batch, 1.0, value_bytes);
  double least = std::numeric_limits<double>::infinity();
  // Each group of cores gets some of the products, and each product a grid of cores that is as square as
  // possible.
  for (int groups = 1; groups <= accelerator.tensor_cores; groups *= 2) {
    const int grid = accelerator.tensor_cores / groups;
    int side = 1;
    while (4 * side * side <= grid) side *= 2;
    for (const auto& [across, along] : {std::pair{side, grid / side}, std::pair{grid / side, side}}) {
      const Sizes own{parts(product.rows, across), product.inner, parts(product.columns, along)};
      least = std::min(least, cyclesOn(accelerator, whole, product.batch, own, parts(product.batch, groups),
                                       grid, value_bytes));
    }
    if (groups >= product.batch) break;
  }
  return least;
}

} // namespace partita
