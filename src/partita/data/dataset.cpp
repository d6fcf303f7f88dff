#include "partita/data/dataset.hpp"

#include "partita/core/available_memory.hpp"
#include "partita/core/error.hpp"

#include <filesystem>
#include <functional>
#include <numeric>
#include <utility>

namespace partita {

namespace {

/// `row`: all values of a sample, of which [first, first + count) are converted.
template <class In, class Out>
void affineValues(const In* row, std::size_t first, std::size_t count, const std::vector<float>& shift,
                  const std::vector<float>& scale, Out* out) {
  const In* in = row + first;
  if (shift.size() == 1) {
    const Out a = shift[0], b = scale[0];
    for (std::size_t j = 0; j < count; ++j) out[j] = (static_cast<Out>(in[j]) - a) * b;
  } else {
    const float *a = shift.data() + first, *b = scale.data() + first;
    for (std::size_t j = 0; j < count; ++j)
      out[j] = (static_cast<Out>(in[j]) - static_cast<Out>(a[j])) * static_cast<Out>(b[j]);
  }
}

template <class Value>
std::vector<Value> selectRows(const std::vector<Value>& in, std::size_t width,
                              const std::vector<std::size_t>& rows) {
  std::vector<Value> out;
  if (in.empty()) return out;
  out.reserve(rows.size() * width);
  for (const std::size_t row : rows) {
    const auto first = in.begin() + row * width;
    out.insert(out.end(), first, first + width);
  }
  return out;
}

} // namespace

Samples::Samples(std::size_t width, std::vector<std::uint8_t> bytes)
    : _width(width), _bytes(std::move(bytes)) {
  PARTITA_REQUIRE(width > 0 && _bytes.size() % width == 0, "samples come in whole rows");
}

Samples::Samples(std::size_t width, std::vector<float> values) : _width(width), _values(std::move(values)) {
  PARTITA_REQUIRE(width > 0 && _values.size() % width == 0, "samples come in whole rows");
}

void Samples::copyValues(std::size_t row, std::size_t first, std::size_t count,
                         const std::vector<float>& shift, const std::vector<float>& scale, float* out) const {
  if (_bytes.empty())
    affineValues(_values.data() + row * _width, first, count, shift, scale, out);
  else
    affineValues(_bytes.data() + row * _width, first, count, shift, scale, out);
}

void Samples::copyValues(std::size_t row, std::size_t first, std::size_t count,
                         const std::vector<float>& shift, const std::vector<float>& scale,
                         double* out) const {
  if (_bytes.empty())
    affineValues(_values.data() + row * _width, first, count, shift, scale, out);
  else
    affineValues(_bytes.data() + row * _width, first, count, shift, scale, out);
}

void Samples::prefetchRow(std::size_t row) const {
#if defined(__GNUC__)
  constexpr std::size_t cache_line = 64;
  const std::size_t value = _bytes.empty() ? sizeof(float) : 1, length = _width * value;
  const char* begin = _bytes.empty() ? reinterpret_cast<const char*>(_values.data() + row * _width)
                                     : reinterpret_cast<const char*>(_bytes.data() + row * _width);
  for (std::size_t offset = 0; offset < length; offset += cache_line) __builtin_prefetch(begin + offset);
#else
  (void)row;
#endif
}

Samples Samples::select(const std::vector<std::size_t>& rows) const {
  Samples out;
  out._width = _width;
  out._bytes = selectRows(_bytes, _width, rows);
  out._values = selectRows(_values, _width, rows);
  return out;
}

std::int64_t DataSets::width() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>{});
}

void requireRoomForSamples(std::int64_t samples, double bytes_per_sample, const std::string& origin) {
  requireMemory(static_cast<double>(samples) * bytes_per_sample,
                origin + ": " + std::to_string(samples) + " samples (data/samples, data/test_samples)");
}

std::string dataPath(const DataSection& section, const std::string& file) {
  return (std::filesystem::path(section.path) / file).string();
}

} // namespace partita
