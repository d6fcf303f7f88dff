#include "partita/plan/cost/spatial_split.hpp"

#include <algorithm>
#include <limits>

namespace partita {

namespace {

bool hasPlaces(const Shape& shape) {
  return isImage(shape) || isVolume(shape);
}

/// Places along depth, rows and columns; an image has depth 1.
std::array<std::int64_t, 3> placesOf(const Shape& shape) {
  const std::size_t rank = shape.size();
  return {rank == 4 ? shape[1] : 1, shape[rank - 2], shape[rank - 1]};
}

std::int64_t largestSlab(std::int64_t extent, std::int64_t parts) {
  return (extent + parts - 1) / parts;
}

Obstacle obstacleOf(const CostTask& task, const SpatialSplit& split) {
  const std::size_t rows = spatialPrefix(task);
  for (std::size_t i = 0; i < rows; ++i) {
    const LayerCost& row = task.layers[i];
    for (std::size_t a = 0; a < 3; ++a) {
      if (split[a] > placesOf(row.out)[a]) return Obstacle::more_ranks_than_places;
      if (split[a] > 1 && row.windows && placesOf(row.in)[a] / split[a] < haloOf(*row.windows, a).widest())
        return Obstacle::slab_smaller_than_halo;
    }
  }
  return Obstacle::none;
}

/// Per step, of the divided rows.
double secondsOf(const CostTerms& terms, const SpatialSplit& split, double samples, const Link& link) {
  const std::size_t rows = spatialPrefix(terms.task);
  double seconds = 0.0;
  for (std::size_t i = 0; i < rows; ++i) {
    const LayerCost& row = terms.task.layers[i];
    seconds += samples * terms.times[i].perSample() * shareOf(row, split);
    for (const Messages& messages : haloMessages(row, split, samples))
      seconds += 2.0 * link.seconds(messages);
  }
  return seconds;
}

} // namespace

Halo haloOf(const WindowPlan& windows, std::size_t axis) {
  const std::int64_t reach = windows.dilation[axis] * (windows.kernel[axis] - 1) + 1;
  const std::int64_t shared = std::max<std::int64_t>(0, reach - windows.stride[axis]);
  const std::int64_t before = std::min(windows.before[axis], shared);
  return {before, shared - before};
}

std::size_t spatialPrefix(const CostTask& task) {
  std::int64_t convolutions = 0;
  const std::int64_t wanted = task.timing.spatial_layers;
  for (std::size_t i = 0; i < task.layers.size(); ++i) {
    const LayerCost& row = task.layers[i];
    if (!hasPlaces(row.in) || !hasPlaces(row.out)) return i;
    if (row.work == LayerWork::convolution && ++convolutions > wanted && wanted > 0) return i;
  }
  return task.layers.size();
}

double shareOf(const LayerCost& row, const SpatialSplit& split) {
  double share = 1.0;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t extent = placesOf(row.out)[a];
    share *= static_cast<double>(largestSlab(extent, split[a])) / static_cast<double>(extent);
  }
  return share;
}

std::vector<Messages> haloMessages(const LayerCost& row, const SpatialSplit& split, double samples) {
  std::vector<Messages> messages;
  if (!row.windows) return messages;
  std::array<std::int64_t, 3> own = placesOf(row.in); // grows by the halos that have arrived
  for (std::size_t a = 0; a < 3; ++a) own[a] = largestSlab(own[a], split[a]);
  for (std::size_t a = 0; a < 3; ++a) {
    if (split[a] == 1) continue;
    const Halo halo = haloOf(*row.windows, a);
    const std::int64_t places = own[0] * own[1] * own[2] / own[a];
    const double face = samples * bytes_per_item * row.channels() * asReal(places);
    if (split[a] == 2) {
      if (halo.widest() > 0) messages.push_back({1.0, face * static_cast<double>(halo.widest())});
      own[a] += halo.widest();
      continue;
    }
    for (const std::int64_t width : {halo.before, halo.after})
      if (width > 0) messages.push_back({1.0, face * static_cast<double>(width)});
    own[a] += halo.before + halo.after;
  }
  return messages;
}

SpatialChoice chooseSplit(const CostTerms& terms, std::int64_t parts, double samples) {
  if (parts > 1 && spatialPrefix(terms.task) == 0) return {{1, 1, 1}, Obstacle::nothing_to_divide};
  const Link& link = terms.cluster.layerLinks().of(parts);
  SpatialChoice best{{1, 1, 1}, Obstacle::more_ranks_than_places};
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t depth = 1; depth <= parts; ++depth) {
    for (std::int64_t rows = 1; parts % depth == 0 && rows <= parts / depth; ++rows) {
      if (parts / depth % rows != 0) continue;
      const SpatialSplit split{depth, rows, parts / depth / rows};
      const Obstacle obstacle = obstacleOf(terms.task, split);
      if (obstacle == Obstacle::slab_smaller_than_halo && best.obstacle != Obstacle::none)
        best.obstacle = obstacle;
      if (obstacle != Obstacle::none) continue;
      const double seconds = secondsOf(terms, split, samples, link);
      if (seconds < least) best = {split, Obstacle::none};
      least = std::min(least, seconds);
    }
  }
  return best;
}

} // namespace partita
