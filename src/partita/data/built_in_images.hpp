#pragma once

#include "partita/core/random.hpp"
#include "partita/data/dataset.hpp"
#include "partita/data/glyph_shapes.hpp"

#include <cstdint>
#include <vector>

namespace partita {

constexpr std::int64_t glyph_training_samples = 20000; ///< if the deck says 0
constexpr std::int64_t glyph_test_samples = 4000;

enum class GlyphSplit : std::uint32_t { train = 0, test = 1 };

/// Images of characters: glyphShapes() with random affine distortion, bent strokes, thickness, contrast and
/// pixel noise. A sample depends only on (settings, split, index), so the first N samples are the same
/// however many are drawn.
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

constexpr std::int64_t noise_training_samples = 1024, noise_test_samples = 256, noise_classes = 10;

/// Random images {channels, image_size, image_size}, or volumes with `depth` before these, with random
/// labels: there is nothing to learn, but a network for large images can be planned and timed without a data
/// set. Depends only on (seed, index).
LoadedSets makeNoiseImages(const DataSection& section, std::uint64_t seed, Need need);

} // namespace partita
