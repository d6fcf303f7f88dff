#include "partita/plan/cost/cost_model.hpp"

#include "partita/config/user_error.hpp"
#include "partita/plan/cost/cost_terms.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/strategies/cost_strategy.hpp"

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
  std::vector<LayerTime> times;
  double flops = 0.0;
  for (std::size_t i = 0; i < task.layers.size(); ++i) {
    const LayerCost& layer = task.layers[i];
    const double backward = backwardFlops(task.layers, i);
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

CostTask costTask(const RunConfig& deck, const Shape& shape, std::int64_t classes, std::size_t samples) {
  CostTask task;
  std::vector<LayerPlan> layers = planNetwork(deck.network, shape, classes);
  task.layers = layerCosts(layers);
  task.samples = static_cast<double>(samples);
  task.batch = static_cast<double>(deck.training.batch);
  const std::int64_t microbatches = deck.strategy.pipeline.microbatches;
  task.segments = microbatches > 1 ? microbatches : 0;
  task.program = std::make_shared<Program>(deck, std::move(layers));
  return task;
}

CostModel::CostModel(CostTask task, Cluster cluster, CostMode mode, PaperForm form)
    : _task(std::move(task)), _cluster(std::move(cluster)), _mode(mode), _form(form) {
  if (mode == CostMode::paper) _task.layers = paperRows(_task.layers);
  _times = mode == CostMode::paper ? paperTimes(_task, _cluster) : exactTimes(_task, _cluster);
}

bool CostModel::has(CostStrategy strategy) const {
  if (_mode == CostMode::exact) return true;
  return strategy == CostStrategy::pipeline ||
         (!isOwn(strategy) && strategy != CostStrategy::grid && strategy != CostStrategy::data_grid);
}

namespace {

/// Times and memory of a strategy that cannot run.
void refuse(Prediction& prediction, Obstacle obstacle, const std::string& detail = "") {
  prediction.obstacle = obstacle;
  prediction.detail = detail;
  prediction.epoch_compute = prediction.memory = std::numeric_limits<double>::quiet_NaN();
}

/// The obstacle that the numbers of ranks, samples and layers are.
Obstacle gridObstacle(const CostTask& task, const Prediction& prediction) {
  const RankGrid& grid = prediction.grid;
  if (prediction.strategy == CostStrategy::serial && prediction.ranks > 1)
    return Obstacle::more_ranks_than_one;
  if (grid.stages > cuttableLayers(task.layers)) return Obstacle::more_ranks_than_layers;
  if (grid.stages * grid.replicas * grid.parts != prediction.ranks)
    return isOwn(prediction.strategy) ? Obstacle::stages_do_not_divide_ranks
                                      : Obstacle::parts_do_not_divide_ranks;
  return static_cast<double>(grid.replicas) > prediction.batch ? Obstacle::more_ranks_than_batch
                                                               : Obstacle::none;
}

} // namespace

Prediction CostModel::predict(CostStrategy strategy, std::int64_t ranks) const {
  const CostTerms terms{_task, _cluster, _times};
  Prediction prediction = startPrediction(terms, strategy, ranks);
  Obstacle obstacle = gridObstacle(_task, prediction);
  if (obstacle == Obstacle::none)
    obstacle = _mode == CostMode::paper ? paperObstacle(terms, prediction) : exactObstacle(terms, prediction);
  if (obstacle != Obstacle::none) {
    refuse(prediction, obstacle);
    return prediction;
  }
  if (_mode == CostMode::paper)
    predictPaper(terms, _form, prediction);
  else if (isOwn(strategy))
    predictOwn(prediction);
  else
    predictExact(terms, prediction);
  checkMemory(prediction);
  return prediction;
}

void CostModel::predictOwn(Prediction& prediction) const {
  if (isPipeline(prediction.strategy)) prediction.microbatches = segmentsOf(_task, prediction.grid.stages);
  try {
    predictRun({_task, _cluster, _times}, runFor(prediction), prediction);
  } catch (const UserError& error) {
    refuse(prediction, Obstacle::refused_by_train, error.what());
  }
}

ProgramRun CostModel::runFor(const Prediction& prediction) const {
  const StrategySection& deck = _task.program->deck().strategy;
  return _task.program->run(sectionFor(prediction.strategy, deck, prediction.grid, prediction.microbatches),
                            prediction.ranks);
}

Prediction CostModel::predict(const ProgramRun& run) const {
  const CostStrategy strategy = costStrategy(run.config.strategy);
  const std::int64_t ranks = run.grid.size();
  if (!isOwn(strategy) && run.grid.parts == 1)
    return predict(ranks > 1 ? CostStrategy::data : CostStrategy::serial, ranks);
  const CostTerms terms{_task, _cluster, _times};
  Prediction prediction = startPrediction(terms, strategy, ranks);
  prediction.grid = {run.grid.groups, run.grid.replicas, run.grid.parts};
  (run.grid.parts > 1 ? predictParts : predictRun)(terms, run, prediction);
  checkMemory(prediction);
  return prediction;
}

void CostModel::checkMemory(Prediction& prediction) const {
  if (prediction.feasible() && _cluster.memory > 0.0 && prediction.memory > _cluster.memory)
    prediction.obstacle = Obstacle::not_enough_memory;
}

} // namespace partita
