#pragma once

#include <cstdint>
#include <vector>

namespace partita {

struct Point {
  float x = 0.0F, y = 0.0F;
};

using Stroke = std::vector<Point>;      ///< vertices of one line of the pen
using GlyphShape = std::vector<Stroke>; ///< in the unit square, y downwards

constexpr std::int64_t glyph_classes = 47;
constexpr std::size_t most_glyph_vertices = 64;

/// The undistorted characters, in the order 0-9 A-Z a b d e f g h n q r t: those lower-case letters that do
/// not look like their capitals, the choice of the EMNIST Balanced set (Cohen et al., "EMNIST: extending
/// MNIST to handwritten letters", IJCNN 2017).
const std::vector<GlyphShape>& glyphShapes();

} // namespace partita
