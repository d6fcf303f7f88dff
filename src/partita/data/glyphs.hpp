#pragma once

#include "partita/core/random.hpp"
#include "partita/data/dataset.hpp"

#include <cstdint>
#include <vector>

namespace partita {

struct Point {
  float x = 0.0F, y = 0.0F;
};

using Stroke = std::vector<Point>;      ///< vertices of one pen stroke
using GlyphShape = std::vector<Stroke>; ///< in the unit square, y downwards

constexpr std::int64_t glyph_classes = 47;
constexpr std::size_t most_glyph_vertices = 64;

/// The undistorted characters, in the order 0-9 A-Z a b d e f g h n q r t: the lower-case letters are those
/// that do not look like their capitals, as in the EMNIST Balanced set (Cohen et al., "EMNIST: extending
/// MNIST to handwritten letters", IJCNN 2017).
const std::vector<GlyphShape>& glyphShapes();

constexpr std::int64_t glyph_training_samples = 20000; ///< if the deck says 0
constexpr std::int64_t glyph_test_samples = 4000;

enum class GlyphSplit : std::uint32_t { train = 0, test = 1 };

/// The built-in data set: the characters of glyphShapes() with random affine distortion, bent strokes,
/// thickness, contrast and pixel noise. A sample depends only on (settings, split, index), so the first N
/// samples are the same however many are drawn.
class GlyphPainter {
 public:
  /// `distortion` scales the distortion of the shapes; `noise` is the standard deviation of a pixel, relative
  /// to full contrast.
  GlyphPainter(std::uint64_t seed, GlyphSplit split, std::int64_t size, double distortion, double noise);

  /// Paints sample `index` of class `label` into size x size bytes, row by row.
  void paint(std::uint64_t index, std::int32_t label, std::uint8_t* out);

 private:
  void traceShape(std::uint64_t index, const GlyphShape& shape);
  void traceSegment(Point a, Point b);
  void addNoise(std::uint64_t index, float contrast, std::uint8_t* out) const;

  RandomStream _shape_stream, _noise_stream;
  std::int64_t _size;
  float _distortion, _noise;
  float _radius = 0.0F;                  ///< half the thickness of a stroke, pixels
  std::vector<float> _squared_distances; ///< from each pixel's centre to the nearest stroke, up to its edge
};

/// Labels of the first `count` samples: each run of `classes` samples holds every class once.
std::vector<std::int32_t> glyphLabels(std::uint64_t seed, GlyphSplit split, std::size_t count,
                                      std::int64_t classes);

LoadedSets makeGlyphs(const DataSection& section, std::uint64_t seed, Need need);

} // namespace partita
