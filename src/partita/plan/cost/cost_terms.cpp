#include "partita/plan/cost/cost_terms.hpp"

#include "partita/plan/balanced_cuts.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

namespace {

std::vector<std::size_t> rowsOf(const std::vector<LayerCost>& layers, LayerWork work) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (layers[i].work == work) rows.push_back(i);
  return rows;
}

/// The grid of a strategy that cuts the network and shares layers as the task says.
RankGrid stagedGrid(const CostTask& task, std::int64_t ranks) {
  RankGrid grid;
  grid.parts = std::max<std::int64_t>(1, task.parts);
  grid.stages = task.stages > 0 ? task.stages : std::max<std::int64_t>(1, ranks / grid.parts);
  grid.replicas = std::max<std::int64_t>(1, ranks / (grid.stages * grid.parts));
  return grid;
}

RankGrid gridOf(const CostTask& task, CostStrategy strategy, std::int64_t ranks, std::int64_t node_ranks) {
  if (cutsNetwork(strategy)) return stagedGrid(task, ranks);
  const CostForm& form = formOf(strategy);
  RankGrid grid;
  if (strategy == CostStrategy::serial) return grid;
  const std::int64_t inside = std::min(ranks, task.parts > 0 ? task.parts : node_ranks);
  if (form.split) grid.parts = form.replicas ? inside : ranks;
  grid.replicas = ranks / grid.parts;
  return grid;
}

} // namespace

std::vector<std::size_t> dividedRows(const std::vector<LayerCost>& layers) {
  std::vector<std::size_t> rows = rowsOf(layers, LayerWork::convolution);
  return rows.empty() ? rowsOf(layers, LayerWork::product) : rows;
}

std::vector<std::size_t> spatialRows(const CostTask& task) {
  std::vector<std::size_t> rows = rowsOf(task.layers, LayerWork::convolution);
  const std::size_t most = task.timing.spatial_layers;
  if (most > 0 && rows.size() > most) rows.resize(most);
  return rows;
}

std::size_t firstTrained(const std::vector<LayerCost>& layers) {
  const auto found =
      std::find_if(layers.begin(), layers.end(), [](const LayerCost& layer) { return layer.trained(); });
  return found - layers.begin();
}

Prediction startPrediction(const CostTerms& terms, CostStrategy strategy, std::int64_t ranks,
                           const std::optional<RankGrid>& grid) {
  Prediction prediction;
  prediction.strategy = strategy;
  prediction.split = formOf(strategy).split;
  prediction.ranks = ranks;
  prediction.nodes = (ranks + terms.cluster.node_ranks - 1) / terms.cluster.node_ranks;
  prediction.grid = grid ? *grid : gridOf(terms.task, strategy, ranks, terms.cluster.node_ranks);
  if (isOwn(strategy) && prediction.grid.parts > 1)
    prediction.split = terms.task.program->deck().strategy.split;
  const auto replicas = static_cast<double>(prediction.grid.replicas);
  prediction.batch = terms.task.batch * (terms.task.batch_per_replica ? replicas : 1.0);
  prediction.steps = std::ceil(terms.task.samples / prediction.batch);
  return prediction;
}

namespace {

constexpr std::int64_t most_examined_ranks = 4096;

/// The most ranks of a node whose next rank in the ring is on another node.
double flowsOfNode(std::int64_t node, std::int64_t ranks, std::int64_t size, std::int64_t stride) {
  std::int64_t most = 0, leaving = 0;
  for (std::int64_t rank = 0; rank < std::min(ranks, most_examined_ranks); ++rank) {
    if (rank % node == 0) leaving = 0;
    const std::int64_t place = rank % (size * stride) / stride;
    const std::int64_t next = rank + ((place + 1) % size - place) * stride;
    if (next / node != rank / node) ++leaving;
    most = std::max(most, leaving);
  }
  return asReal(most);
}

} // namespace

RingPath ringPath(const Cluster& cluster, std::int64_t ranks, std::int64_t size, std::int64_t stride) {
  const double flows = flowsOfNode(cluster.node_ranks, ranks, size, stride);
  if (flows == 0.0) return {cluster.links.of(size), 1.0};
  return {cluster.links.of(ranks), std::max(1.0, flows / asReal(cluster.node_cables))};
}

double trainingFlops(const std::vector<LayerCost>& layers) {
  double flops = 0.0;
  for (const LayerCost& layer : layers)
    flops += layer.forward_flops + layer.weight_flops + (layer.input_gradient ? layer.input_flops : 0.0);
  return flops;
}

double secondsPerFlop(const CostTerms& terms) {
  const double flops = trainingFlops(terms.task.layers);
  double seconds = 0.0;
  for (const LayerTime& time : terms.times) seconds += time.perSample();
  return flops > 0.0 ? seconds / flops : 0.0;
}

std::int64_t cuttableLayers(const std::vector<LayerCost>& layers) {
  return layers.empty() ? 0 : layers.back().index + 1;
}

std::vector<std::int64_t> stagesOfRows(const CostTerms& terms, std::int64_t stages) {
  const std::vector<LayerCost>& rows = terms.task.layers;
  std::vector<double> before(cuttableLayers(rows) + 1, 0.0); // time of the layers [0, i)
  for (std::size_t i = 0; i < rows.size(); ++i) before[rows[i].index + 1] += terms.times[i].perSample();
  for (std::size_t i = 1; i < before.size(); ++i) before[i] += before[i - 1];
  const std::vector<std::int64_t> cuts = balancedCuts(before, static_cast<int>(stages));
  std::vector<std::int64_t> stage_of;
  stage_of.reserve(rows.size());
  for (const LayerCost& row : rows)
    stage_of.push_back(std::upper_bound(cuts.begin(), cuts.end(), row.index) - cuts.begin());
  return stage_of;
}

namespace {

bool hasWindows(const LayerCost& layer) {
  return layer.windows && (layer.work == LayerWork::convolution || layer.work == LayerWork::pooling);
}

/// Can a grid divide the places of a row's input and output, from an axis on, among so many parts?
bool hasPlacesFor(const LayerCost& layer, std::int64_t parts, std::size_t axis = 1) {
  if (axis == layer.in.size()) return parts == 1;
  const std::int64_t most = std::min({parts, layer.in[axis], layer.out[axis]});
  for (std::int64_t ranges = 1; ranges <= most; ++ranges)
    if (parts % ranges == 0 && hasPlacesFor(layer, parts / ranges, axis + 1)) return true;
  return false;
}

/// Are there rows with windows, and enough places for all parts?
Obstacle placesObstacle(const std::vector<LayerCost>& layers, std::int64_t parts) {
  bool windows = false, enough = false;
  for (const LayerCost& layer : layers) {
    if (!hasWindows(layer)) continue;
    windows = true;
    enough = enough || hasPlacesFor(layer, parts);
  }
  if (!windows) return Obstacle::nothing_to_divide;
  return enough ? Obstacle::refused_by_train : Obstacle::more_ranks_than_places;
}

} // namespace

Obstacle partsObstacle(const CostTask& task, const Prediction& prediction) {
  const std::int64_t parts = prediction.grid.parts;
  if (parts == 1) return Obstacle::refused_by_train;
  if (prediction.split == Split::spatial) return placesObstacle(task.layers, parts);
  const bool output = prediction.split != Split::channel, input = prediction.split != Split::filter;
  bool weights = false;
  const std::size_t first = firstTrained(task.layers);
  for (std::size_t i = 0; i < task.layers.size(); ++i) {
    const LayerCost& layer = task.layers[i];
    if (layer.work != LayerWork::convolution && layer.work != LayerWork::product) continue;
    weights = true;
    const auto wanted = asReal(parts);
    if (output && wanted > layer.filters()) return Obstacle::more_ranks_than_filters;
    if (input && i != first && wanted > layer.channels()) return Obstacle::more_ranks_than_channels;
  }
  return weights ? Obstacle::refused_by_train : Obstacle::nothing_to_divide;
}

std::int64_t segmentsOf(const CostTask& task, std::int64_t stages) {
  const std::int64_t wanted = task.segments > 0 ? task.segments : stages;
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, std::llround(task.batch)));
}

} // namespace partita
