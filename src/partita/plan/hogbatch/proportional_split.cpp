#include "partita/plan/hogbatch/batch_controller.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace partita {

namespace {

/// Parts of `level * weight`, within their bounds.
std::vector<double> partsAt(double level, const std::vector<double>& weights,
                            const std::vector<std::int64_t>& lower, const std::vector<std::int64_t>& upper) {
  std::vector<double> parts;
  for (std::size_t i = 0; i < weights.size(); ++i)
    parts.push_back(
        std::max(static_cast<double>(lower[i]), std::min(level * weights[i], static_cast<double>(upper[i]))));
  return parts;
}

double sumOfParts(const std::vector<double>& parts) {
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

/// Finds the level at which the parts have this sum, by bisection.
std::vector<double> exactParts(double total, const std::vector<double>& weights,
                               const std::vector<std::int64_t>& lower,
                               const std::vector<std::int64_t>& upper) {
  constexpr int halvings = 200;
  double below = 0.0, above = 1.0;
  for (int i = 0; i < halvings && sumOfParts(partsAt(above, weights, lower, upper)) < total; ++i)
    above *= 2.0;
  for (int i = 0; i < halvings; ++i) {
    const double middle = 0.5 * (below + above);
    (sumOfParts(partsAt(middle, weights, lower, upper)) < total ? below : above) = middle;
  }
  return partsAt(above, weights, lower, upper);
}

} // namespace

std::vector<std::int64_t> proportionalSplit(std::int64_t total, const std::vector<double>& weights,
                                            const std::vector<std::int64_t>& lower,
                                            const std::vector<std::int64_t>& upper) {
  constexpr double rounding = 1e-9, steps = 1e6; // equal remainders stay equal under rounding errors
  const std::vector<double> exact = exactParts(static_cast<double>(total), weights, lower, upper);
  std::vector<std::int64_t> parts;
  std::vector<double> remainders;
  for (const double part : exact) {
    parts.push_back(static_cast<std::int64_t>(std::floor(part + rounding)));
    remainders.push_back(std::round(steps * (part - static_cast<double>(parts.back()))));
  }
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  std::int64_t missing = total - std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  for (std::size_t i = 0; i < order.size() && missing > 0; ++i) {
    if (parts[order[i]] >= upper[order[i]]) continue;
    ++parts[order[i]];
    --missing;
  }
  return parts;
}

} // namespace partita
