#include "partita/plan/cost/cost_model.hpp"

#include "partita/plan/cost/cost_terms.hpp"

#include <limits>

namespace partita {

namespace {

/// The authors give a layer the part of the measured time that it has of their estimate of FLOPs; a third of
/// it is the forward pass.
std::vector<LayerTime> paperTimes(const CostTask& task, const Cluster& cluster) {
  const double flops = sumOf(task.layers, &LayerCost::authors_flops);
  const double measured = task.timing.seconds_per_sample;
  const double rate = measured > 0.0 ? measured / flops : 1.0 / cluster.flops;
  std::vector<LayerTime> times;
  for (const LayerCost& layer : task.layers) {
    const double seconds = layer.authors_flops * rate;
    times.push_back({seconds / 3.0, seconds * 2.0 / 3.0, layer.weights * cluster.seconds_per_update});
  }
  return times;
}

std::vector<LayerTime> exactTimes(const CostTask& task, const Cluster& cluster) {
  const std::size_t first = firstTrained(task.layers);
  std::vector<LayerTime> times;
  double flops = 0.0;
  for (std::size_t i = 0; i < task.layers.size(); ++i) {
    const LayerCost& layer = task.layers[i];
    const double backward = layer.weight_flops + (i > first ? layer.input_flops : 0.0);
    flops += layer.forward_flops + backward;
    times.push_back({layer.forward_flops, backward, layer.parameters() * cluster.seconds_per_update});
  }
  const double measured = task.timing.seconds_per_sample;
  const double rate = measured > 0.0 && flops > 0.0 ? measured / flops : 1.0 / cluster.flops;
  for (LayerTime& time : times) {
    time.forward *= rate;
    time.backward *= rate;
  }
  return times;
}

LayerCost activationRow(const LayerCost& layer) {
  LayerCost row;
  row.name = layer.name + " activation";
  row.index = layer.index;
  row.in = row.out = layer.out;
  row.in_place = true;
  row.inputs = row.outputs = layer.outputs;
  row.authors_flops = layer.activation_flops;
  return row;
}

/// The authors' tables have neither shortcuts that compute something, nor biases, nor parameters of norms.
/// Activations are rows of their own there.
std::vector<LayerCost> paperRows(const std::vector<LayerCost>& layers) {
  std::vector<LayerCost> rows;
  for (const LayerCost& layer : layers) {
    if (layer.in_shortcut) continue;
    rows.push_back(layer);
    rows.back().vectors = 0.0;
    if (layer.activation_flops > 0.0) rows.push_back(activationRow(layer));
  }
  return rows;
}

} // namespace

CostModel::CostModel(CostTask task, Cluster cluster, CostMode mode, PaperForm form)
    : _task(std::move(task)), _cluster(std::move(cluster)), _mode(mode), _form(form) {
  if (mode == CostMode::paper) _task.layers = paperRows(_task.layers);
  _times = mode == CostMode::paper ? paperTimes(_task, _cluster) : exactTimes(_task, _cluster);
}

bool CostModel::has(CostStrategy strategy) const {
  return _mode == CostMode::exact || (strategy != CostStrategy::grid && strategy != CostStrategy::data_grid);
}

Prediction CostModel::predict(CostStrategy strategy, std::int64_t ranks) const {
  const CostTerms terms{_task, _cluster, _times};
  Prediction prediction = startPrediction(terms, strategy, ranks);
  const RankGrid& grid = prediction.grid;
  if (strategy == CostStrategy::serial && ranks > 1)
    prediction.obstacle = Obstacle::more_ranks_than_one;
  else if (grid.stages * grid.replicas * grid.parts != ranks)
    prediction.obstacle = Obstacle::parts_do_not_divide_ranks;
  else if (static_cast<double>(grid.replicas) > prediction.batch)
    prediction.obstacle = Obstacle::more_ranks_than_batch;
  else
    prediction.obstacle =
        _mode == CostMode::paper ? paperObstacle(terms, prediction) : exactObstacle(terms, prediction);
  if (!prediction.feasible()) {
    prediction.epoch_compute = prediction.memory = std::numeric_limits<double>::quiet_NaN();
    return prediction;
  }
  _mode == CostMode::paper ? predictPaper(terms, _form, prediction) : predictExact(terms, prediction);
  if (_cluster.memory > 0.0 && prediction.memory > _cluster.memory)
    prediction.obstacle = Obstacle::not_enough_memory;
  return prediction;
}

} // namespace partita
