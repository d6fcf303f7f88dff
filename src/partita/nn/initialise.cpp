#include "partita/nn/initialise.hpp"

#include "partita/core/random.hpp"

#include <cmath>
#include <vector>

namespace partita {

namespace {

double deviation(Initialisation kind, double outputs, double inputs) {
  switch (kind) {
  case Initialisation::he:
    return std::sqrt(2.0 / inputs);
  case Initialisation::xavier:
    return std::sqrt(2.0 / (inputs + outputs));
  default:
    return std::sqrt(1.0 / inputs);
  }
}

double dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

} // namespace

void orthonormaliseRows(double* m, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    double* row = m + r * columns;
    for (int pass = 0; pass < 2; ++pass) { // once loses orthogonality to rounding, twice is enough
      for (std::int64_t q = 0; q < r; ++q) {
        const double* other = m + q * columns;
        const double projection = dot(row, other, columns);
        for (std::int64_t i = 0; i < columns; ++i) row[i] -= projection * other[i];
      }
    }
    const double length = std::sqrt(dot(row, row, columns));
    for (std::int64_t i = 0; i < columns; ++i) row[i] /= length;
  }
}

void initialiseWeights(Initialisation kind, std::uint64_t seed, std::int64_t layer, std::int64_t outputs,
                       std::int64_t inputs, Real* weights) {
  const RandomStream random(seed, Stream::initialisation, static_cast<std::uint32_t>(layer));
  const std::int64_t size = outputs * inputs;
  if (kind != Initialisation::orthogonal) {
    const double scale = deviation(kind, static_cast<double>(outputs), static_cast<double>(inputs));
    for (std::int64_t i = 0; i < size; ++i) {
      weights[i] = static_cast<Real>(scale * random.normal(static_cast<std::uint64_t>(i)));
    }
    return;
  }
  // Orthonormal rows or columns, whichever are fewer.
  const bool wide = outputs <= inputs;
  const std::int64_t rows = wide ? outputs : inputs, columns = wide ? inputs : outputs;
  std::vector<double> q(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i)
    q[static_cast<std::size_t>(i)] = random.normal(static_cast<std::uint64_t>(i));
  orthonormaliseRows(q.data(), rows, columns);
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t i = 0; i < inputs; ++i) {
      weights[o * inputs + i] =
          static_cast<Real>(q[static_cast<std::size_t>(wide ? o * columns + i : i * columns + o)]);
    }
  }
}

} // namespace partita
