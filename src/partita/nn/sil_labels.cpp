#include "partita/nn/sil_labels.hpp"

#include "partita/config/names.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/error.hpp"
#include "partita/core/image_layout.hpp"
#include "partita/core/random.hpp"
#include "partita/kernels/products.hpp"
#include "partita/nn/initialise.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace partita {

namespace {

using Values = std::vector<double>;

double independentEntry(LabelKind kind, const RandomStream& random, std::uint64_t i) {
  switch (kind) {
  case LabelKind::uniform:
    return random.uniform(i);
  case LabelKind::centred:
    return std::sqrt(12.0) * (random.uniform(i) - 0.5);
  case LabelKind::binary:
    return random.uniform(i) < 0.5F ? 1.0 : 0.0;
  case LabelKind::sparse:
    return random.uniform(i) < 0.1F ? 1.0 : 0.0;
  case LabelKind::sign:
    return random.uniform(i) < 0.5F ? 1.0 : -1.0;
  default:
    return random.normal(i);
  }
}

bool hasFewValues(LabelKind kind) {
  return kind == LabelKind::binary || kind == LabelKind::sparse || kind == LabelKind::sign;
}

/// Rows of few different entries may be equal by chance, and no network can tell their classes apart: later
/// ones are drawn again.
void makeDifferent(Values& s, LabelKind kind, const RandomStream& random, std::int64_t classes,
                   std::int64_t width) {
  constexpr int most_draws = 1000;
  const auto row = [&](std::int64_t c) { return s.begin() + c * width; };
  const auto before = [&](std::int64_t a, std::int64_t b) {
    return std::lexicographical_compare(row(a), row(a) + width, row(b), row(b) + width);
  };
  std::set<std::int64_t, decltype(before)> found(before);
  for (std::int64_t c = 0; c < classes; ++c) {
    for (int draw = 1; !found.insert(c).second; ++draw) {
      if (draw == most_draws)
        throw UserError("strategy/labels: " + std::to_string(width) + " units have too few different " +
                        nameOf(kind) + " labels for " + std::to_string(classes) +
                        " classes; choose gaussian, or a cut with more units");
      for (std::int64_t j = 0; j < width; ++j) {
        const auto i = static_cast<std::size_t>(c * width + j);
        s[i] = independentEntry(kind, random, i + static_cast<std::size_t>(draw) * s.size());
      }
    }
  }
}

void makeOrthogonal(Values& s, std::int64_t classes, std::int64_t width) {
  orthonormaliseRows(s.data(), classes, width);
  for (double& value : s) value *= std::sqrt(static_cast<double>(width));
}

Values meanRow(const Values& s, std::int64_t classes, std::int64_t width) {
  Values mean(static_cast<std::size_t>(width), 0.0);
  for (std::size_t i = 0; i < s.size(); ++i) mean[i % mean.size()] += s[i] / static_cast<double>(classes);
  return mean;
}

/// Simplex frame: the orthogonal rows minus their mean, scaled back to their length.
void makeEquiangular(Values& s, std::int64_t classes, std::int64_t width) {
  makeOrthogonal(s, classes, width);
  const Values mean = meanRow(s, classes, width);
  const double stretch =
      classes > 1 ? std::sqrt(static_cast<double>(classes) / static_cast<double>(classes - 1)) : 1.0;
  for (std::size_t i = 0; i < s.size(); ++i) s[i] = stretch * (s[i] - mean[i % mean.size()]);
}

/// Disjoint groups of width / classes units, one group per class.
void makeBlocks(Values& s, std::int64_t classes, std::int64_t width) {
  const std::int64_t group = width / classes;
  std::fill(s.begin(), s.end(), 0.0);
  for (std::int64_t c = 0; c < classes; ++c) {
    for (std::int64_t j = c * group; j < (c + 1) * group; ++j) {
      s[static_cast<std::size_t>(c * width + j)] = std::sqrt(static_cast<double>(classes));
    }
  }
}

template <class Device, class Host>
void copyToDevice(const Device& device, const Host& host) {
  const ExecSpace space;
  Kokkos::deep_copy(space, device, host);
  fence(space, "partita::SilLabels");
}

Matrix toDevice(const std::string& label, const Values& values, std::int64_t rows, std::int64_t columns,
                const ImageLayout& layout) {
  Matrix device = makeMatrix(label, rows, columns);
  const auto host = Kokkos::create_mirror_view(device);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t j = 0; j < columns; ++j)
      host(row, layout.trivial() ? j : inMemory(layout, j)) =
          static_cast<Real>(values[static_cast<std::size_t>(row * columns + j)]);
  copyToDevice(device, host);
  return device;
}

SilLabels finish(Values values, double temperature, std::int64_t classes, std::int64_t width,
                 const ImageLayout& layout) {
  SilLabels labels;
  labels.layout = layout;
  labels.mean = meanRow(values, classes, width);
  Values centred = values;
  double squares = 0.0;
  for (std::size_t i = 0; i < centred.size(); ++i) {
    centred[i] -= labels.mean[i % labels.mean.size()];
    squares += centred[i] * centred[i];
  }
  const auto c = static_cast<double>(classes);
  labels.deviation = std::sqrt(squares / static_cast<double>(centred.size()));
  labels.temperature =
      temperature > 0.0 ? temperature
                        : labels.deviation * std::sqrt(static_cast<double>(width) * c / (c > 1 ? c - 1 : 1));
  labels.rows = toDevice("partita::SilLabels::rows", values, classes, width, layout);
  labels.centred = toDevice("partita::SilLabels::centred", centred, classes, width, layout);
  labels.half_squares = Vector("partita::SilLabels::half_squares", static_cast<std::size_t>(classes));
  const auto halves = Kokkos::create_mirror_view(labels.half_squares);
  for (std::size_t i = 0; i < values.size(); ++i) {
    halves(i / static_cast<std::size_t>(width)) += static_cast<Real>(0.5 * values[i] * values[i]);
  }
  copyToDevice(labels.half_squares, halves);
  labels.values = std::move(values);
  return labels;
}

} // namespace

SilLabels makeSilLabels(LabelKind kind, double kappa, double temperature, std::int64_t classes,
                        std::int64_t width, std::uint64_t seed, int cut, const ImageLayout& layout) {
  const RandomStream random(seed, Stream::labels, static_cast<std::uint32_t>(cut));
  Values s(static_cast<std::size_t>(classes * width));
  for (std::size_t i = 0; i < s.size(); ++i) s[i] = independentEntry(kind, random, i);
  if (hasFewValues(kind)) makeDifferent(s, kind, random, classes, width);
  if (kind == LabelKind::orthogonal) makeOrthogonal(s, classes, width);
  if (kind == LabelKind::etf) makeEquiangular(s, classes, width);
  if (kind == LabelKind::block) makeBlocks(s, classes, width);
  for (double& value : s) value *= kappa;
  return finish(std::move(s), temperature, classes, width, layout);
}

std::vector<Real> SilLabels::decoder() const {
  std::vector<Real> weights(values.size());
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<Real>(centredAt(i) / temperature);
  return weights;
}

LabelDecoder::LabelDecoder(const SilLabels& labels, std::int64_t capacity)
    : _labels(labels), _logits(makeMatrix("partita::LabelDecoder::logits", capacity, labels.classes())),
      _logit_gradient(makeMatrix("partita::LabelDecoder::logit_gradient", capacity, labels.classes())) {}

Matrix LabelDecoder::forward(const ExecSpace& space, const Matrix& output) {
  const Matrix logits = topRows(_logits, static_cast<std::int64_t>(output.extent(0)));
  gemm(space, Op::none, Op::transpose, _labels.perTemperature(), output, _labels.centred, Real(0), logits);
  return logits;
}

Matrix LabelDecoder::logitGradient(const Matrix& output) const {
  return topRows(_logit_gradient, static_cast<std::int64_t>(output.extent(0)));
}

void LabelDecoder::backward(const ExecSpace& space, const Matrix& logit_gradient, const Matrix& grad) const {
  gemm(space, Op::none, Op::none, _labels.perTemperature(), logit_gradient, _labels.centred, Real(0), grad);
}

SilLabels makeOneHotLabels(std::int64_t classes) {
  Values s(static_cast<std::size_t>(classes * classes), 0.0);
  for (std::int64_t c = 0; c < classes; ++c) s[static_cast<std::size_t>(c * classes + c)] = 1.0;
  return finish(std::move(s), 0.0, classes, classes, {});
}

} // namespace partita
