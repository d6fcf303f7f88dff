#pragma once

#include "partita/plan/cost/cost_terms.hpp"

#include <array>

namespace partita {

/// How many ranks divide depth, rows and columns of a sample.
using SpatialSplit = std::array<std::int64_t, 3>;

/// Places of a row that its rank needs from the neighbours before and after it along an axis.
struct Halo {
  std::int64_t before = 0, after = 0;
  std::int64_t widest() const { return before > after ? before : after; }
};

/// A rank that owns the output places [o0, o1) needs the input places [o0 s - P, (o1 - 1) s - P + K), for
/// stride s, padding P and reach K. All ranks together own the input once, so K - s places come from
/// neighbours.
Halo haloOf(const WindowPlan& windows, std::size_t axis);

/// The number of leading rows that keep their places divided: up to the first row without places or with one
/// window over all of them, or the convolution after the last one that the task divides.
std::size_t spatialPrefix(const CostTask& task);

/// The part of the outputs of a row that the rank with most of them has.
double shareOf(const LayerCost& row, const SpatialSplit& split);

/// The messages of the rank with most neighbours to get the halos of a row: for each divided axis one per
/// neighbour, axis by axis, so that corners travel with the second axis. Backward, the sums of gradients
/// travel the other way.
std::vector<Messages> haloMessages(const LayerCost& row, const SpatialSplit& split, double samples);

/// The division of places among `parts` ranks with the least time for halos and computation, or the reason
/// why there is none.
struct SpatialChoice {
  SpatialSplit split{1, 1, 1};
  Obstacle obstacle = Obstacle::none;
};
SpatialChoice chooseSplit(const CostTerms& terms, std::int64_t parts, double samples);

} // namespace partita
