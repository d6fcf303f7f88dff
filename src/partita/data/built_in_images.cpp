#include "partita/data/built_in_images.hpp"

#include "partita/config/user_error.hpp"
#include "partita/data/order.hpp"
#include "partita/plan/shape.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

namespace partita {

namespace {

// Ranges at distortion 1, tuned so that a linear model cannot solve the task and a small deep network can.
constexpr float rotation = 0.30F; ///< radians, either way
constexpr float shear = 0.30F;    ///< either way
constexpr float shrink = 0.30F;   ///< largest loss of height or width
constexpr float shift = 0.11F;    ///< of the image's side, either way
constexpr float bend = 0.02F;     ///< of the image's side: displacement of a stroke's vertex, either way
constexpr float thinnest = 0.040F, thickest = 0.075F; ///< half the thickness, of the image's side
constexpr float faintest = 0.80F;                     ///< contrast

constexpr std::uint64_t pose_blocks = 3; ///< of random numbers, before those of the vertices
constexpr std::uint64_t blocks_per_sample = pose_blocks + most_glyph_vertices;

/// Uniform in (-1, 1).
float symmetric(std::uint32_t word) {
  return 2.0F * toUniform(word) - 1.0F;
}

/// Nearly normal, mean 0 and standard deviation 1: the sum of four bytes, each of variance (256^2 - 1) / 12.
float roughNormal(std::uint32_t word) {
  const std::uint32_t sum = (word & 255U) + ((word >> 8) & 255U) + ((word >> 16) & 255U) + (word >> 24);
  return (static_cast<float>(sum) - 510.0F) * 0.0067659F;
}

Pose drawPose(const Random4& turn, const Random4& place, float distortion) {
  const float angle = distortion * rotation * symmetric(turn.word[0]);
  const float slant = distortion * shear * symmetric(turn.word[1]);
  const float width = 1.0F - std::min(0.8F, distortion * shrink * toUniform(turn.word[2]));
  const float height = 1.0F - std::min(0.8F, distortion * shrink * toUniform(turn.word[3]));
  const float c = std::cos(angle), s = std::sin(angle);
  Pose pose{};
  pose.xx = c * width;
  pose.xy = (c * slant - s) * height;
  pose.yx = s * width;
  pose.yy = (s * slant + c) * height;
  pose.x0 = 0.5F + distortion * shift * symmetric(place.word[0]);
  pose.y0 = 0.5F + distortion * shift * symmetric(place.word[1]);
  return pose;
}

} // namespace

GlyphPainter::GlyphPainter(std::uint64_t seed, GlyphSplit split, std::int64_t size, double distortion,
                           double noise)
    : _shape_stream(seed, Stream::glyph_distortion, static_cast<std::uint32_t>(split)),
      _noise_stream(seed, Stream::glyph_noise, static_cast<std::uint32_t>(split)), _size(size),
      _distortion(static_cast<float>(distortion)), _noise(static_cast<float>(noise)),
      _squared_distances(size * size) {}

void GlyphPainter::paint(std::uint64_t index, std::int32_t label, std::uint8_t* out) {
  const Random4 look = _shape_stream.block(index * blocks_per_sample);
  _radius = static_cast<float>(_size) * (thinnest + (thickest - thinnest) * toUniform(look.word[0]));
  const float contrast = faintest + (1.0F - faintest) * toUniform(look.word[1]);
  traceShape(index, glyphShapes()[label]);
  addNoise(index, contrast, out);
}

void GlyphPainter::traceShape(std::uint64_t index, const GlyphShape& shape) {
  const float edge = _radius + 0.5F;
  std::fill(_squared_distances.begin(), _squared_distances.end(), edge * edge);
  const std::uint64_t first = index * blocks_per_sample;
  const Pose pose = drawPose(_shape_stream.block(first + 1), _shape_stream.block(first + 2), _distortion);
  const float side = static_cast<float>(_size), reach = _distortion * bend;
  std::uint64_t vertex = first + pose_blocks;
  for (const Stroke& stroke : shape) {
    Point previous;
    for (std::size_t i = 0; i < stroke.size(); ++i) {
      const Random4 random = _shape_stream.block(vertex++);
      const Point bent{stroke[i].x + reach * symmetric(random.word[0]),
                       stroke[i].y + reach * symmetric(random.word[1])};
      const Point placed = pose.apply(bent);
      const Point pixel{side * placed.x, side * placed.y};
      if (i > 0) traceSegment(previous, pixel);
      previous = pixel;
    }
  }
}

void GlyphPainter::traceSegment(Point a, Point b) {
  const float edge = _radius + 0.5F, last = static_cast<float>(_size - 1);
  const auto pixel = [&](float value) { return static_cast<std::int64_t>(std::clamp(value, 0.0F, last)); };
  const std::int64_t left = pixel(std::min(a.x, b.x) - edge), right = pixel(std::max(a.x, b.x) + edge);
  const std::int64_t top = pixel(std::min(a.y, b.y) - edge), bottom = pixel(std::max(a.y, b.y) + edge);
  const float dx = b.x - a.x, dy = b.y - a.y;
  const float scale = 1.0F / std::max(dx * dx + dy * dy, 1e-12F);
  for (std::int64_t row = top; row <= bottom; ++row) {
    const float y = static_cast<float>(row) + 0.5F - a.y;
    float* distances = _squared_distances.data() + row * _size;
    for (std::int64_t column = left; column <= right; ++column) {
      const float x = static_cast<float>(column) + 0.5F - a.x;
      const float along = std::min(std::max((x * dx + y * dy) * scale, 0.0F), 1.0F);
      const float ex = x - along * dx, ey = y - along * dy;
      distances[column] = std::min(distances[column], ex * ex + ey * ey);
    }
  }
}

void GlyphPainter::addNoise(std::uint64_t index, float contrast, std::uint8_t* out) const {
  const std::size_t pixels = _squared_distances.size(), blocks = (pixels + 3) / 4;
  const float edge = _radius + 0.5F;
  for (std::size_t block = 0; block < blocks; ++block) {
    const Random4 random = _noise_stream.block(index * blocks + block);
    const std::size_t first = 4 * block, count = std::min<std::size_t>(4, pixels - first);
    for (std::size_t k = 0; k < count; ++k) {
      const float coverage = std::min(edge - std::sqrt(_squared_distances[first + k]), 1.0F);
      const float value = contrast * coverage + _noise * roughNormal(random.word[k]);
      out[first + k] = static_cast<std::uint8_t>(255.99F * std::min(std::max(value, 0.0F), 1.0F));
    }
  }
}

std::vector<std::int32_t> glyphLabels(std::uint64_t seed, GlyphSplit split, std::size_t count,
                                      std::int64_t classes) {
  std::vector<std::int32_t> labels;
  labels.reserve(count);
  for (std::uint32_t run = 0; labels.size() < count; ++run) {
    const RandomStream stream(seed, Stream::glyph_shape, 2 * run + static_cast<std::uint32_t>(split));
    for (const std::uint32_t label : permutation(classes, stream))
      if (labels.size() < count) labels.push_back(static_cast<std::int32_t>(label));
  }
  return labels;
}

namespace {

/// An empty set of images. Throws UserError if there is no memory for `samples` of them.
LoadedSet emptySet(const DataSection& section, std::int64_t channels, std::int64_t samples, Need need,
                   const std::string& source) {
  LoadedSet set;
  set.features_source = set.labels_source = source;
  set.shape = {channels, section.image_size, section.image_size};
  if (section.kind == DataKind::noise && section.depth > 0)
    set.shape.insert(set.shape.begin() + 1, section.depth);
  const auto image = static_cast<double>(valuesOf(set.shape)); // a byte per value
  requireRoomForSamples(samples, (need == Need::everything ? image : 0.0) + sizeof(std::int32_t), source);
  return set;
}

LoadedSet glyphSet(const DataSection& section, std::uint64_t seed, GlyphSplit split, std::int64_t count,
                   Need need) {
  LoadedSet set = emptySet(section, 1, count, need, "glyphs");
  set.labels = glyphLabels(seed, split, count, section.classes == 0 ? glyph_classes : section.classes);
  if (need == Need::labels_only) return set;
  const std::size_t pixels = valuesOf(set.shape);
  GlyphPainter painter(seed, split, section.image_size, section.distortion, section.noise);
  std::vector<std::uint8_t> bytes(set.labels.size() * pixels);
  for (std::size_t i = 0; i < set.labels.size(); ++i)
    painter.paint(i, set.labels[i], bytes.data() + i * pixels);
  set.features = Samples(pixels, std::move(bytes));
  return set;
}

enum class NoisePart : std::uint32_t { labels, train, test };

LoadedSet noiseSet(const DataSection& section, std::uint64_t seed, NoisePart part, std::int64_t samples,
                   Need need) {
  LoadedSet set = emptySet(section, section.channels, samples, need, "data/kind noise");
  const RandomStream labels(seed, Stream::noise_images, static_cast<std::uint32_t>(NoisePart::labels)),
      pixels(seed, Stream::noise_images, static_cast<std::uint32_t>(part));
  const std::uint32_t classes = section.classes == 0 ? noise_classes : section.classes;
  const std::uint64_t count = samples, first = part == NoisePart::test ? ~0U : 0U;
  set.labels.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i)
    set.labels.push_back(static_cast<std::int32_t>(labels.below(first + i, classes)));
  if (need == Need::labels_only) return set;
  const std::size_t width = valuesOf(set.shape);
  std::vector<std::uint8_t> bytes((width * count + 15) / 16 * 16);
  for (std::size_t i = 0; i < bytes.size(); i += 16) {
    const Random4 random = pixels.block(i / 16);
    std::memcpy(&bytes[i], random.word, 16);
  }
  bytes.resize(width * count);
  set.features = Samples(width, std::move(bytes));
  return set;
}

} // namespace

LoadedSets makeGlyphs(const DataSection& section, std::uint64_t seed, Need need) {
  if (section.classes > glyph_classes)
    throw UserError("data/classes: glyphs has " + std::to_string(glyph_classes) + " classes, not " +
                    std::to_string(section.classes));
  const std::int64_t train = section.samples == 0 ? glyph_training_samples : section.samples;
  const std::int64_t test = section.test_samples == 0 ? glyph_test_samples : section.test_samples;
  LoadedSets sets;
  sets.train = glyphSet(section, seed, GlyphSplit::train, train, need);
  sets.test = glyphSet(section, seed, GlyphSplit::test, test, need);
  return sets;
}

LoadedSets makeNoiseImages(const DataSection& section, std::uint64_t seed, Need need) {
  const std::int64_t train = section.samples == 0 ? noise_training_samples : section.samples;
  const std::int64_t test = section.test_samples == 0 ? noise_test_samples : section.test_samples;
  LoadedSets sets;
  sets.train = noiseSet(section, seed, NoisePart::train, train, need);
  sets.test = noiseSet(section, seed, NoisePart::test, test, need);
  return sets;
}

} // namespace partita
