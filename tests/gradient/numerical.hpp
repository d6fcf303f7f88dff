#pragma once

#include "support/matrices.hpp"

namespace partita::test {

/// In double the differences below agree with exact gradients to about 1e-11.
constexpr double gradient_tolerance = 1e-9;
static_assert(sizeof(Real) == 8, "gradient checks are made in double");

/// Gradient of f at x by central differences of fourth order: the error is h^4 f''''' / 30 plus rounding, eps
/// f / h.
template <class Function>
Values numericalGradient(const Function& f, const Values& x) {
  constexpr double h = 1e-3;
  Values gradient;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto at = [&](double step) {
      Values moved = x;
      moved[i] += step;
      return f(moved);
    };
    gradient.push_back((8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h));
  }
  return gradient;
}

/// Moves values out of (-margin, margin), where a relu has its kink.
inline Values awayFromZero(Values values, double margin = 0.05) {
  for (double& value : values) value += value < 0.0 ? -margin : margin;
  return values;
}

/// Rows that sum to one.
inline Values distributions(std::int64_t rows, std::int64_t classes, std::uint64_t seed) {
  Values values = normals(rows * classes, seed);
  for (double& value : values) value = std::exp(value);
  for (std::int64_t i = 0; i < rows; ++i) {
    double sum = 0.0;
    for (std::int64_t c = 0; c < classes; ++c) sum += values[static_cast<std::size_t>(i * classes + c)];
    for (std::int64_t c = 0; c < classes; ++c) values[static_cast<std::size_t>(i * classes + c)] /= sum;
  }
  return values;
}

} // namespace partita::test
