#include "partita/data/standardisation.hpp"

#include "partita/config/text.hpp"
#include "partita/core/log.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

namespace partita {

namespace {

/// Sums of (x - reference) and its square for each feature. If the reference is a value of the data itself, a
/// constant gives exactly 0, and the difference of large numbers below does no harm.
struct Moments {
  std::vector<double> first, second;

  explicit Moments(std::size_t width) : first(width, 0.0), second(width, 0.0) {}
  void add(std::size_t column, double value) {
    first[column] += value;
    second[column] += value * value;
  }
};

/// The same result as in the general case, bit for bit: the zeros that are not stored count where
/// the reference is not zero.
Moments sparseMoments(const SparseRows& rows, const std::vector<float>& reference) {
  Moments moments(reference.size());
  std::vector<double> row(reference.begin(), reference.end());
  for (double& value : row) value = 0.0 - value;
  std::vector<std::size_t> shifted;
  for (std::size_t j = 0; j < reference.size(); ++j)
    if (reference[j] != 0.0F) shifted.push_back(j);
  for (std::size_t i = 0; i < rows.end.size(); ++i) {
    for (std::size_t k = rows.begin(i); k < rows.end[i]; ++k) row[rows.columns[k]] += rows.values[k];
    for (const std::size_t j : shifted) moments.add(j, row[j]);
    for (std::size_t k = rows.begin(i); k < rows.end[i]; ++k) {
      const std::size_t j = rows.columns[k];
      if (reference[j] == 0.0F) moments.add(j, row[j]);
      row[j] = 0.0 - static_cast<double>(reference[j]);
    }
  }
  return moments;
}

Moments columnMoments(const Samples& samples, const std::vector<float>& reference) {
  const std::size_t width = samples.width();
  if (samples.sparse() != nullptr)
    return sparseMoments(*samples.sparse(), reference.size() == width
                                                ? reference
                                                : std::vector<float>(width, reference.front()));
  Moments moments(width);
  const std::vector<float> ones(reference.size(), 1.0F);
  std::vector<double> row(width);
  for (std::size_t i = 0; i < samples.rows(); ++i) {
    samples.copyRow(i, reference, ones, row.data());
    for (std::size_t j = 0; j < width; ++j) moments.add(j, row[j]);
  }
  return moments;
}

float inverseDeviation(double first, double second, double count) {
  const double mean = first / count, deviation = std::sqrt(std::max(0.0, second / count - mean * mean));
  // The inverse of a smaller one would be infinite.
  return deviation > std::numeric_limits<float>::min() ? static_cast<float>(1.0 / deviation) : 1.0F;
}

float shifted(float reference, double first, double count) {
  return static_cast<float>(static_cast<double>(reference) + first / count);
}

/// Features with a small spread would hardly matter if all features were divided by the same deviation.
void warnOfSmallFeatures(const Moments& moments, double count, float inverse_of_all,
                         const std::string& source) {
  constexpr float small = 100.0F;
  constexpr double rounding = 1e-12; // of the sums of a constant
  std::int64_t varying = 0, small_ones = 0;
  for (std::size_t j = 0; j < moments.first.size(); ++j) {
    const double square = moments.second[j] * count;
    if (square - moments.first[j] * moments.first[j] <= rounding * square) continue; // a constant
    ++varying;
    if (inverseDeviation(moments.first[j], moments.second[j], count) > small * inverse_of_all) ++small_ones;
  }
  if (small_ones * 2 > varying)
    Log::warning(
        source + ": " + std::to_string(small_ones) + " of " + counted(varying, "feature") +
        " have less than a hundredth of the deviation of all values and will hardly matter: consider "
        "data/standardise = \"feature\"");
}

AffineMap scalarMap(const Samples& samples, float reference, const std::string& table) {
  const Moments moments = columnMoments(samples, {reference});
  const double first = std::accumulate(moments.first.begin(), moments.first.end(), 0.0);
  const double second = std::accumulate(moments.second.begin(), moments.second.end(), 0.0);
  const double count = static_cast<double>(samples.rows()) * static_cast<double>(samples.width());
  const float scale = inverseDeviation(first, second, count);
  if (!table.empty()) warnOfSmallFeatures(moments, static_cast<double>(samples.rows()), scale, table);
  return {{shifted(reference, first, count)}, {scale}};
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

AffineMap standardisation(const Samples& samples, Standardise kind, const std::string& table) {
  if (kind == Standardise::none || samples.rows() == 0) return {{0.0F}, {1.0F}};
  std::vector<float> reference(samples.width());
  samples.copyRow(0, {0.0F}, {1.0F}, reference.data());
  return kind == Standardise::scalar ? scalarMap(samples, reference.front(), table)
                                     : featureMap(samples, reference);
}

namespace {

/// Ordinary data are far from both: between standardised values and bytes lies a factor of 60 to 80, between
/// values from 0 to 1 and bytes one of 255.
constexpr double most_ratio = 50.0;
/// Fewer samples may be alike by chance.
constexpr std::size_t enough_samples = 20;

/// Evenly spaced ones: some are enough, and the moments of sparse rows take the time of dense ones.
Samples someOf(const Samples& samples) {
  constexpr std::size_t most = 2000;
  if (samples.rows() <= most) return samples;
  std::vector<std::size_t> rows(most);
  for (std::size_t i = 0; i < most; ++i) rows[i] = i * samples.rows() / most;
  return samples.select(rows);
}

bool divides(float scale) {
  return scale != 1.0F;
}

/// Of samples in units of the deviation for which a map was made.
struct Spread {
  double square = 0.0;   ///< mean square of the distance from the mean of the map
  double variance = 0.0; ///< about the mean of the samples themselves
};

Spread spreadOf(double first, double second, double count, double scale) {
  const double mean = first / count, square = second / count;
  return {square * scale * scale, std::max(0.0, square - mean * mean) * scale * scale};
}

/// Of all values together, or of each feature that the map divides by its deviation.
std::vector<Spread> spreads(const Samples& samples, const AffineMap& map) {
  const Moments moments = columnMoments(samples, map.shift);
  const auto rows = static_cast<double>(samples.rows());
  std::vector<Spread> found;
  if (map.scale.size() == 1) {
    const double first = std::accumulate(moments.first.begin(), moments.first.end(), 0.0);
    const double second = std::accumulate(moments.second.begin(), moments.second.end(), 0.0);
    const double count = rows * static_cast<double>(samples.width());
    if (divides(map.scale[0])) found.push_back(spreadOf(first, second, count, map.scale[0]));
    return found;
  }
  for (std::size_t j = 0; j < map.scale.size(); ++j)
    if (divides(map.scale[j]))
      found.push_back(spreadOf(moments.first[j], moments.second[j], rows, map.scale[j]));
  return found;
}

} // namespace

bool hasAnotherScale(const Samples& samples, const AffineMap& map) {
  if (samples.rows() == 0 || std::none_of(map.scale.begin(), map.scale.end(), divides)) return false;
  std::vector<Spread> found = spreads(someOf(samples), map);
  // A few features with rare values may have any spread: they neither raise the median, nor lower the mean.
  const auto middle = found.begin() + static_cast<std::ptrdiff_t>(found.size() / 2);
  std::nth_element(found.begin(), middle, found.end(),
                   [](const Spread& a, const Spread& b) { return a.square < b.square; });
  if (middle->square > most_ratio * most_ratio) return true;
  const double variance = std::accumulate(found.begin(), found.end(), 0.0,
                                          [](double sum, const Spread& one) { return sum + one.variance; });
  return samples.rows() >= enough_samples &&
         variance / static_cast<double>(found.size()) < 1.0 / (most_ratio * most_ratio);
}

} // namespace partita
