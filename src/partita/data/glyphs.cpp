#include "partita/data/glyphs.hpp"

#include "partita/config/user_error.hpp"
#include "partita/core/error.hpp"
#include "partita/data/order.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <sstream>
#include <string>
#include <utility>

namespace partita {

namespace {

/// One character per line. `L x y x y ...` draws a line through points, `A cx cy rx ry from to` draws an arc
/// of an ellipse (degrees, 0 to the right, clockwise on the page), `;` lifts the pen.
constexpr std::array<const char*, glyph_classes> drawings = {
    /* 0 */ "A .5 .5 .28 .4 0 360 ; L .36 .7 .64 .3",
    /* 1 */ "L .32 .28 .52 .1 .52 .9",
    /* 2 */ "A .5 .32 .26 .22 190 380 L .22 .9 .8 .9",
    /* 3 */ "A .48 .3 .25 .2 200 450 A .48 .7 .28 .2 270 520",
    /* 4 */ "L .62 .9 .62 .1 .2 .65 .82 .65",
    /* 5 */ "L .74 .1 .3 .1 .28 .45 A .47 .64 .28 .26 230 500",
    /* 6 */ "L .68 .1 .38 .38 A .5 .66 .25 .24 180 540",
    /* 7 */ "L .2 .1 .8 .1 .42 .9 ; L .36 .5 .72 .5",
    /* 8 */ "A .5 .3 .22 .2 90 450 A .5 .7 .27 .2 270 630",
    /* 9 */ "A .5 .34 .24 .24 0 360 L .7 .6 .56 .9",
    /* A */ "L .18 .9 .5 .1 .82 .9 ; L .3 .62 .7 .62",
    /* B */ "L .5 .5 .26 .5 .26 .1 .5 .1 A .5 .3 .24 .2 270 450 A .5 .7 .28 .2 270 450 L .26 .9 .26 .5",
    /* C */ "A .54 .5 .32 .4 315 45",
    /* D */ "L .42 .9 .26 .9 .26 .1 .42 .1 A .42 .5 .36 .4 270 450",
    /* E */ "L .76 .1 .26 .1 .26 .9 .76 .9 ; L .26 .5 .66 .5",
    /* F */ "L .76 .1 .26 .1 .26 .9 ; L .26 .48 .64 .48",
    /* G */ "A .52 .5 .32 .4 315 10 L .54 .56",
    /* H */ "L .24 .1 .24 .9 ; L .76 .1 .76 .9 ; L .24 .5 .76 .5",
    /* I */ "L .5 .1 .5 .9 ; L .32 .1 .68 .1 ; L .32 .9 .68 .9",
    /* J */ "L .4 .1 .76 .1 ; L .64 .1 A .44 .66 .2 .24 0 170",
    /* K */ "L .26 .1 .26 .9 ; L .76 .1 .26 .55 ; L .42 .42 .78 .9",
    /* L */ "L .28 .1 .28 .9 .76 .9",
    /* M */ "L .16 .9 .2 .1 .5 .6 .8 .1 .84 .9",
    /* N */ "L .22 .9 .22 .1 .78 .9 .78 .1",
    /* O */ "A .5 .5 .36 .38 0 360",
    /* P */ "L .26 .9 .26 .1 .5 .1 A .5 .32 .26 .22 270 450 L .26 .54",
    /* Q */ "A .5 .48 .34 .36 0 360 ; L .58 .64 .84 .9",
    /* R */ "L .26 .9 .26 .1 .5 .1 A .5 .3 .25 .2 270 450 L .26 .5 ; L .48 .5 .78 .9",
    /* S */ "A .5 .3 .26 .2 330 90 A .5 .7 .28 .2 270 510",
    /* T */ "L .16 .1 .84 .1 ; L .5 .1 .5 .9",
    /* U */ "L .22 .1 A .5 .6 .28 .3 180 0 L .78 .1",
    /* V */ "L .18 .1 .5 .9 .82 .1",
    /* W */ "L .12 .1 .3 .9 .5 .35 .7 .9 .88 .1",
    /* X */ "L .2 .1 .8 .9 ; L .8 .1 .2 .9",
    /* Y */ "L .18 .1 .5 .5 .82 .1 ; L .5 .5 .5 .9",
    /* Z */ "L .2 .1 .8 .1 .2 .9 .8 .9",
    /* a */ "A .46 .64 .24 .24 0 360 ; L .7 .38 .7 .8 .82 .9",
    /* b */ "L .28 .1 .28 .9 ; A .5 .66 .22 .24 180 540",
    /* d */ "L .72 .1 .72 .9 ; A .5 .66 .22 .24 0 360",
    /* e */ "L .27 .62 A .5 .62 .23 .26 0 -315",
    /* f */ "A .62 .28 .18 .18 330 180 L .44 .9 ; L .24 .46 .68 .46",
    /* g */ "A .48 .42 .22 .2 0 360 ; L .7 .22 A .48 .7 .22 .2 0 160",
    /* h */ "L .28 .1 .28 .9 ; A .5 .6 .22 .2 180 360 L .72 .9",
    /* n */ "L .28 .4 .28 .9 ; A .5 .62 .22 .2 180 360 L .72 .9",
    /* q */ "A .46 .4 .22 .22 0 360 ; L .68 .18 .68 .9 .82 .78",
    /* r */ "L .34 .4 .34 .9 ; A .54 .62 .2 .22 180 315",
    /* t */ "L .46 .14 A .62 .74 .16 .16 180 60 ; L .26 .38 .68 .38",
};

constexpr float degrees_per_vertex = 25.0F;

void appendArc(std::istringstream& text, Stroke& stroke) {
  float cx = 0.0F, cy = 0.0F, rx = 0.0F, ry = 0.0F, from = 0.0F, to = 0.0F;
  text >> cx >> cy >> rx >> ry >> from >> to;
  const int steps = static_cast<int>(std::ceil(std::fabs(to - from) / degrees_per_vertex));
  for (int i = 0; i <= steps; ++i) {
    const float turned = from + (to - from) * static_cast<float>(i) / static_cast<float>(steps);
    const float angle = turned * 0.01745329252F;
    stroke.push_back({cx + rx * std::cos(angle), cy + ry * std::sin(angle)});
  }
}

GlyphShape parseShape(const char* drawing) {
  std::istringstream text(drawing);
  GlyphShape shape(1);
  for (std::string word; text >> word;) {
    Stroke& stroke = shape.back();
    if (word == "A") {
      appendArc(text, stroke);
    } else if (word == ";") {
      shape.emplace_back();
    } else if (word != "L") {
      const float x = std::stof(word);
      float y = 0.0F;
      text >> y;
      stroke.push_back({x, y});
    }
  }
  std::size_t vertices = 0;
  for (const Stroke& stroke : shape) vertices += stroke.size();
  PARTITA_REQUIRE(text.eof() && vertices <= most_glyph_vertices, drawing);
  return shape;
}

} // namespace

const std::vector<GlyphShape>& glyphShapes() {
  static const std::vector<GlyphShape> shapes = [] {
    std::vector<GlyphShape> parsed;
    parsed.reserve(drawings.size());
    for (const char* drawing : drawings) parsed.push_back(parseShape(drawing));
    return parsed;
  }();
  return shapes;
}

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

/// Affine map of the unit square around its centre.
struct Pose {
  float xx, xy, yx, yy, x0, y0;

  Point apply(Point p) const {
    const float x = p.x - 0.5F, y = p.y - 0.5F;
    return {xx * x + xy * y + x0, yx * x + yy * y + y0};
  }
};

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

LoadedSet makeSet(const DataSection& section, std::uint64_t seed, GlyphSplit split, std::int64_t count,
                  Need need) {
  const std::int64_t classes = section.classes == 0 ? glyph_classes : section.classes;
  const auto pixels = static_cast<std::size_t>(section.image_size * section.image_size);
  LoadedSet set;
  requireRoomForSamples(
      count, (need == Need::everything ? static_cast<double>(pixels) : 0.0) + sizeof(std::int32_t), "glyphs");
  set.labels = glyphLabels(seed, split, count, classes);
  set.shape = {1, section.image_size, section.image_size};
  set.features_source = set.labels_source = "glyphs";
  if (need == Need::labels_only) return set;

  GlyphPainter painter(seed, split, section.image_size, section.distortion, section.noise);
  std::vector<std::uint8_t> bytes(set.labels.size() * pixels);
  for (std::size_t i = 0; i < set.labels.size(); ++i)
    painter.paint(i, set.labels[i], bytes.data() + i * pixels);
  set.features = Samples(pixels, std::move(bytes));
  return set;
}

} // namespace

GlyphPainter::GlyphPainter(std::uint64_t seed, GlyphSplit split, std::int64_t size, double distortion,
                           double noise)
    : _shape_stream(seed, Stream::glyph_distortion, static_cast<std::uint32_t>(split)),
      _noise_stream(seed, Stream::glyph_noise, static_cast<std::uint32_t>(split)), _size(size),
      _distortion(static_cast<float>(distortion)), _noise(static_cast<float>(noise)),
      _squared_distances(static_cast<std::size_t>(size * size)) {}

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

LoadedSets makeGlyphs(const DataSection& section, std::uint64_t seed, Need need) {
  if (section.classes > glyph_classes)
    throw UserError("data/classes: glyphs has " + std::to_string(glyph_classes) + " classes, not " +
                    std::to_string(section.classes));
  const std::int64_t train = section.samples == 0 ? glyph_training_samples : section.samples;
  const std::int64_t test = section.test_samples == 0 ? glyph_test_samples : section.test_samples;
  LoadedSets sets;
  sets.train = makeSet(section, seed, GlyphSplit::train, train, need);
  sets.test = makeSet(section, seed, GlyphSplit::test, test, need);
  return sets;
}

} // namespace partita
