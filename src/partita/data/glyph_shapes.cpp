#include "partita/data/glyph_shapes.hpp"

#include "partita/config/run_config.hpp"
#include "partita/core/error.hpp"

#include <array>
#include <cmath>
#include <sstream>
#include <string>

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

} // namespace partita
