#include "partita/nn/initialise.hpp"

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
    for (int pass = 0; pass < 2; ++pass) { // one pass loses orthogonality to rounding, two are enough
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

void fillNormal(double scale, const RandomStream& random, std::int64_t first, const TensorSlice& slice,
                Real* values) {
  for (const SliceRun& run : runsOf(slice)) {
    for (std::int64_t i = 0; i < run.count; ++i)
      values[run.in_slice + i] = static_cast<Real>(scale * random.normal(first + run.in_whole + i));
  }
}

void initialiseWeights(Initialisation kind, const WeightSource& source, const TensorSlice& slice,
                       Real* weights) {
  const RandomStream random(source.seed, Stream::initialisation, static_cast<std::uint32_t>(source.layer));
  const std::int64_t outputs = source.outputs, inputs = source.inputs;
  if (kind != Initialisation::orthogonal) {
    fillNormal(deviation(kind, static_cast<double>(outputs), static_cast<double>(inputs)), random, 0, slice,
               weights);
    return;
  }
  // Orthonormal rows or columns, whichever are fewer; a slice cannot be computed without the whole matrix.
  const bool wide = outputs <= inputs;
  const std::int64_t rows = wide ? outputs : inputs, columns = wide ? inputs : outputs;
  std::vector<double> q(rows * columns);
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = random.normal(i);
  orthonormaliseRows(q.data(), rows, columns);
  for (const SliceRun& run : runsOf(slice)) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      const std::int64_t output = (run.in_whole + i) / inputs, input = (run.in_whole + i) % inputs,
                         place = wide ? output * columns + input : input * columns + output;
      weights[run.in_slice + i] = static_cast<Real>(q[place]);
    }
  }
}

} // namespace partita
