#pragma once

#include <cstddef>
#include <vector>

namespace partita {

struct Point {
  float x = 0.0F, y = 0.0F;
};

using Stroke = std::vector<Point>;      ///< vertices of one pen stroke
using GlyphShape = std::vector<Stroke>; ///< in the unit square, y downwards

/// Affine map of the unit square around its centre.
struct Pose {
  float xx, xy, yx, yy, x0, y0;

  Point apply(Point p) const {
    const float x = p.x - 0.5F, y = p.y - 0.5F;
    return {xx * x + xy * y + x0, yx * x + yy * y + y0};
  }
};

constexpr std::size_t most_glyph_vertices = 64;

/// The undistorted characters, in the order 0-9 A-Z a b d e f g h n q r t: the lower-case letters are those
/// that do not look like their capitals, as in the EMNIST Balanced set (Cohen et al., "EMNIST: extending
/// MNIST to handwritten letters", IJCNN 2017).
const std::vector<GlyphShape>& glyphShapes();

} // namespace partita
