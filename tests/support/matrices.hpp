#pragma once

#include "partita/core/random.hpp"
#include "partita/core/types.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/catch.hpp"

namespace partita::test {

/// Converts between vectors on the host, used by tests, and views, used by Partita.
using Values = std::vector<double>;

/// Normally distributed numbers from a seed.
inline Values normals(std::int64_t size, std::uint64_t seed) {
  const RandomStream random(seed, Stream::initialisation);
  Values values;
  for (std::int64_t i = 0; i < size; ++i) values.push_back(random.normal(static_cast<std::uint64_t>(i)));
  return values;
}

template <class View>
void assign(const View& view, const Values& values) {
  const auto host = Kokkos::create_mirror_view(view);
  std::transform(values.begin(), values.end(), host.data(),
                 [](double value) { return static_cast<typename View::non_const_value_type>(value); });
  Kokkos::deep_copy(view, host);
}

template <class View>
Values valuesOf(const View& view) {
  const auto host = Kokkos::create_mirror_view_and_copy(HostSpace(), view);
  return {host.data(), host.data() + host.size()};
}

inline Matrix matrixOf(std::int64_t rows, std::int64_t columns, const Values& values) {
  const Matrix matrix = makeMatrix("partita::test::matrix", rows, columns);
  assign(matrix, values);
  return matrix;
}

inline Vector vectorOf(const Values& values) {
  const Vector vector("partita::test::vector", values.size());
  assign(vector, values);
  return vector;
}

inline Labels labelsOf(const std::vector<std::int32_t>& classes) {
  const Labels labels("partita::test::labels", classes.size());
  assign(labels, Values(classes.begin(), classes.end()));
  return labels;
}

inline double dot(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// |a - b| / |b|
inline double relativeError(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  Values difference = a;
  for (std::size_t i = 0; i < a.size(); ++i) difference[i] -= b[i];
  return std::sqrt(dot(difference, difference) / dot(b, b));
}

} // namespace partita::test
