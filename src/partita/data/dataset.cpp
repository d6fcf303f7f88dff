#include "partita/data/dataset.hpp"

#include "partita/config/user_error.hpp"
#include "partita/core/available_memory.hpp"
#include "partita/core/error.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

namespace partita {

namespace {

template <class Out, class In>
Out affine(In value, float shift, float scale) {
  return (static_cast<Out>(value) - static_cast<Out>(shift)) * static_cast<Out>(scale);
}

/// `row`: all values of a sample, of which [first, first + count) are converted.
template <class In, class Out>
void affineValues(const In* row, std::size_t first, std::size_t count, const std::vector<float>& shift,
                  const std::vector<float>& scale, Out* out, std::size_t step) {
  const In* in = row + first;
  if (shift.size() == 1) {
    const float a = shift[0], b = scale[0];
    for (std::size_t j = 0; j < count; ++j) out[j * step] = affine<Out>(in[j], a, b);
  } else {
    const float *a = shift.data() + first, *b = scale.data() + first;
    for (std::size_t j = 0; j < count; ++j) out[j * step] = affine<Out>(in[j], a[j], b[j]);
  }
}

/// The same for a row without its zeros.
template <class Out>
void affineValues(const SparseRows& rows, std::size_t row, std::size_t first, std::size_t count,
                  const std::vector<float>& shift, const std::vector<float>& scale, Out* out,
                  std::size_t step) {
  const bool common = shift.size() == 1;
  for (std::size_t j = 0; j < count; ++j) {
    const std::size_t map = common ? 0 : first + j;
    out[j * step] = affine<Out>(0.0F, shift[map], scale[map]);
  }
  const std::uint32_t* const columns = rows.columns.begin();
  const std::uint32_t *const begin = columns + rows.begin(row), *const end = columns + rows.end[row];
  for (const auto* at = std::lower_bound(begin, end, first); at != end && *at < first + count; ++at) {
    const std::size_t map = common ? 0 : *at;
    out[(*at - first) * step] = affine<Out>(rows.values[at - columns], shift[map], scale[map]);
  }
}

template <class Value>
ConstArray<Value> selectRows(const ConstArray<Value>& in, std::size_t width,
                             const std::vector<std::size_t>& rows) {
  std::vector<Value> out;
  if (in.empty()) return out;
  out.reserve(rows.size() * width);
  for (const std::size_t row : rows) {
    const Value* const first = in.begin() + row * width;
    out.insert(out.end(), first, first + width);
  }
  return out;
}

SparseRows selectRows(const SparseRows& in, const std::vector<std::size_t>& rows) {
  if (in.end.empty()) return {};
  std::size_t stored = 0;
  for (const std::size_t row : rows) stored += in.end[row] - in.begin(row);
  std::vector<std::size_t> ends;
  std::vector<std::uint32_t> columns;
  std::vector<float> values;
  ends.reserve(rows.size());
  columns.reserve(stored);
  values.reserve(stored);
  for (const std::size_t row : rows) {
    const std::size_t begin = in.begin(row), end = in.end[row];
    columns.insert(columns.end(), in.columns.begin() + begin, in.columns.begin() + end);
    values.insert(values.end(), in.values.begin() + begin, in.values.begin() + end);
    ends.push_back(values.size());
  }
  return {std::move(ends), std::move(columns), std::move(values)};
}

} // namespace

Samples::Samples(std::size_t width, ConstArray<std::uint8_t> bytes)
    : _width(width), _bytes(std::move(bytes)) {
  PARTITA_REQUIRE(width > 0 && _bytes.size() % width == 0, "samples come in whole rows");
}

Samples::Samples(std::size_t width, ConstArray<float> values) : _width(width), _values(std::move(values)) {
  PARTITA_REQUIRE(width > 0 && _values.size() % width == 0, "samples come in whole rows");
}

Samples::Samples(std::size_t width, SparseRows rows) : _width(width), _sparse(std::move(rows)) {
  PARTITA_REQUIRE(width > 0 && !_sparse.end.empty() && _sparse.end.back() == _sparse.values.size() &&
                      _sparse.columns.size() == _sparse.values.size(),
                  "samples come in whole rows");
}

template <class Out>
void Samples::convertValues(std::size_t row, std::size_t first, std::size_t count,
                            const std::vector<float>& shift, const std::vector<float>& scale, Out* out,
                            std::size_t step) const {
  if (sparse() != nullptr)
    affineValues(_sparse, row, first, count, shift, scale, out, step);
  else if (_bytes.empty())
    affineValues(_values.data() + row * _width, first, count, shift, scale, out, step);
  else
    affineValues(_bytes.data() + row * _width, first, count, shift, scale, out, step);
}

void Samples::copyValues(std::size_t row, std::size_t first, std::size_t count,
                         const std::vector<float>& shift, const std::vector<float>& scale, float* out,
                         std::size_t step) const {
  convertValues(row, first, count, shift, scale, out, step);
}

void Samples::copyValues(std::size_t row, std::size_t first, std::size_t count,
                         const std::vector<float>& shift, const std::vector<float>& scale, double* out,
                         std::size_t step) const {
  convertValues(row, first, count, shift, scale, out, step);
}

namespace {

#if defined(__GNUC__)
void prefetch(const void* values, std::size_t bytes) {
  constexpr std::size_t cache_line = 64;
  for (std::size_t offset = 0; offset < bytes; offset += cache_line)
    __builtin_prefetch(static_cast<const char*>(values) + offset);
}
#else
void prefetch(const void*, std::size_t) {}
#endif

} // namespace

void Samples::prefetchRow(std::size_t row) const {
  if (sparse() != nullptr) {
    const std::size_t begin = _sparse.begin(row), count = _sparse.end[row] - begin;
    prefetch(_sparse.columns.data() + begin, count * sizeof(std::uint32_t));
    prefetch(_sparse.values.data() + begin, count * sizeof(float));
  } else if (_bytes.empty()) {
    prefetch(_values.data() + row * _width, _width * sizeof(float));
  } else {
    prefetch(_bytes.data() + row * _width, _width);
  }
}

Samples Samples::select(const std::vector<std::size_t>& rows) const {
  Samples out;
  out._width = _width;
  out._bytes = selectRows(_bytes, _width, rows);
  out._values = selectRows(_values, _width, rows);
  out._sparse = selectRows(_sparse, rows);
  return out;
}

Dataset Dataset::select(const std::vector<std::size_t>& samples) const {
  return {features.select(samples), selectRows(labels, labels_per_sample, samples), labels_per_sample};
}

void failWidth(const std::string& file, std::size_t width, const TrainedInput& trained) {
  throw UserError(file + ": samples have " + std::to_string(width) +
                  " values, but the network was trained on " + std::to_string(trained.width()));
}

std::vector<std::int64_t> labelsOfClasses(const std::vector<std::int64_t>& label_values,
                                          std::int64_t classes) {
  if (!label_values.empty()) return label_values;
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(classes));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  return numbers;
}

std::vector<std::int32_t> rankLabels(const std::vector<std::int32_t>& labels, const std::string& file,
                                     const std::vector<std::int64_t>& values) {
  std::vector<std::int32_t> ranks;
  ranks.reserve(labels.size());
  for (const std::int32_t label : labels) {
    const auto place = std::lower_bound(values.begin(), values.end(), label);
    if (place == values.end() || *place != label)
      throw UserError(file + ": label " + std::to_string(label) + " of sample " +
                      std::to_string(ranks.size()) + " does not occur in the training set");
    ranks.push_back(static_cast<std::int32_t>(place - values.begin()));
  }
  return ranks;
}

void requireRoomForSamples(std::int64_t samples, double bytes_per_sample, const std::string& origin) {
  requireMemory(static_cast<double>(samples) * bytes_per_sample,
                origin + ": " + std::to_string(samples) + " samples (data/samples, data/test_samples)");
}

std::string dataPath(const DataSection& section, const std::string& file) {
  return (std::filesystem::path(section.path) / file).string();
}

} // namespace partita
