#include "partita/data/standardise.hpp"

#include <cmath>
#include <cstddef>
#include <numeric>

namespace partita {

namespace {

/// Sums of (x - reference) and its square for each feature. With a value of the data itself as reference a
/// constant gives exactly 0, and the difference of large numbers below does no harm.
struct Moments {
  std::vector<double> first, second;
};

Moments columnMoments(const Samples& samples, const std::vector<float>& reference) {
  const std::size_t width = samples.width();
  Moments moments{std::vector<double>(width, 0.0), std::vector<double>(width, 0.0)};
  const std::vector<float> ones(reference.size(), 1.0F);
  std::vector<double> row(width);
  for (std::size_t i = 0; i < samples.rows(); ++i) {
    samples.copyRow(i, reference, ones, row.data());
    for (std::size_t j = 0; j < width; ++j) {
      moments.first[j] += row[j];
      moments.second[j] += row[j] * row[j];
    }
  }
  return moments;
}

float inverseDeviation(double first, double second, double count) {
  const double mean = first / count, variance = second / count - mean * mean;
  return variance > 0.0 ? static_cast<float>(1.0 / std::sqrt(variance)) : 1.0F;
}

float shifted(float reference, double first, double count) {
  return static_cast<float>(static_cast<double>(reference) + first / count);
}

AffineMap scalarMap(const Samples& samples, float reference) {
  const Moments moments = columnMoments(samples, {reference});
  const double first = std::accumulate(moments.first.begin(), moments.first.end(), 0.0);
  const double second = std::accumulate(moments.second.begin(), moments.second.end(), 0.0);
  const double count = static_cast<double>(samples.rows()) * static_cast<double>(samples.width());
  return {{shifted(reference, first, count)}, {inverseDeviation(first, second, count)}};
}

AffineMap featureMap(const Samples& samples, const std::vector<float>& reference) {
  const Moments moments = columnMoments(samples, reference);
  const auto count = static_cast<double>(samples.rows());
  AffineMap map;
  for (std::size_t j = 0; j < reference.size(); ++j) {
    map.shift.push_back(shifted(reference[j], moments.first[j], count));
    map.scale.push_back(inverseDeviation(moments.first[j], moments.second[j], count));
  }
  return map;
}

} // namespace

AffineMap standardisation(const Samples& samples, Standardise kind) {
  if (kind == Standardise::none || samples.rows() == 0) return {{0.0F}, {1.0F}};
  std::vector<float> reference(samples.width());
  samples.copyRow(0, {0.0F}, {1.0F}, reference.data());
  return kind == Standardise::scalar ? scalarMap(samples, reference.front()) : featureMap(samples, reference);
}

} // namespace partita
