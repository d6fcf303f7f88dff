#include "partita/plan/cost/cost_model.hpp"

#include "partita/config/user_error.hpp"
#include "partita/plan/cost/cost_terms.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/strategies/cost_strategy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace partita {

namespace {

/// The authors divide the measured time among layers in proportion to their estimates of FLOPs. A third of it
/// is the forward pass.
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

/// The authors' tables have no shortcuts that compute something, no biases and no parameters of norms.
/// Activations have rows of their own.
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

/// The same program on devices that take messages where they are, and whose gradients are summed in host
/// memory.
std::shared_ptr<const Program> programOnDevice(const Program& program) {
  DeviceKind device = program.device();
  device.host = false;
  return std::make_shared<Program>(program.deck(), program.layers(), device);
}

Precision precisionOf(const CostTask& task) {
  return task.program != nullptr ? task.program->deck().run.precision : Precision::single;
}

} // namespace

CostTask costTask(const RunConfig& deck, const Shape& shape, std::int64_t classes, std::size_t samples,
                  const DeviceKind& device) {
  CostTask task;
  std::vector<LayerPlan> layers = planNetwork(deck.network, shape, classes);
  task.layers = layerCosts(layers);
  task.samples = static_cast<double>(samples);
  task.batch = static_cast<double>(deck.training.batch);
  const std::int64_t microbatches = deck.strategy.pipeline.microbatches;
  task.segments = microbatches > 1 ? microbatches : 0;
  task.program = std::make_shared<Program>(deck, std::move(layers), device);
  return task;
}

NetworkTiming networkOf(const CostTask& task) {
  NetworkTiming row;
  row.parameters = task.program->parameters();
  row.flops_per_sample = trainingFlops(task.layers);
  row.precision = nameOf(task.program->deck().run.precision);
  return row;
}

NetworkTiming timingOf(const CostTask& task, const Cluster& cluster, const std::string& deck) {
  const NetworkTiming network = networkOf(task);
  return cluster.timing(deck, network.parameters, network.flops_per_sample, network.precision);
}

CostModel::CostModel(CostTask task, Cluster cluster, CostMode mode)
    : _task(std::move(task)), _cluster(std::move(cluster)), _mode(mode),
      _kernels(_cluster, precisionOf(_task)) {
  if (_cluster.device && _task.program != nullptr && _task.program->device().host)
    _task.program = programOnDevice(*_task.program);
  if (mode == CostMode::paper) _task.layers = paperRows(_task.layers);
  if (_task.timing.seconds_per_update > 0.0) _cluster.seconds_per_update = _task.timing.seconds_per_update;
  _times = mode == CostMode::paper ? paperTimes(_task, _cluster) : exactTimes();
}

CostTerms CostModel::terms() const {
  return {_task, _cluster, _times, _kernels};
}

/// Times of the kernels. If the time of the whole network is known, all are scaled to agree with it, at the
/// number of samples of that measurement.
std::vector<LayerTime> CostModel::exactTimes() {
  const double measured = _task.timing.seconds_per_sample,
               samples = _task.timing.batch > 0 ? asReal(_task.timing.batch) : _task.batch;
  std::vector<LayerTime> times;
  double seconds = 0.0;
  for (std::size_t i = 0; i < _task.layers.size(); ++i) {
    const PassTime pass = passOf(i, samples);
    times.push_back({pass.forward / samples, pass.backward / samples,
                     _task.layers[i].parameters() * _cluster.seconds_per_update});
    seconds += times.back().perSample();
  }
  if (measured <= 0.0 || seconds <= 0.0) return times;
  _kernels.scale(measured / seconds);
  for (LayerTime& time : times) {
    time.forward *= measured / seconds;
    time.backward *= measured / seconds;
  }
  return times;
}

PassTime CostModel::passOf(std::size_t row, double samples) const {
  return _kernels.of(_task.layers[row].kernel, samples, _task.layers[row].input_gradient);
}

double CostModel::recomputedShare() const {
  double again = 0.0, once = 0.0;
  for (std::size_t i = 0; i < _times.size(); ++i) {
    again += _task.layers[i].again * _times[i].forward;
    once += _times[i].perSample();
  }
  return once > 0.0 ? again / once : 0.0;
}

bool CostModel::has(CostStrategy strategy) const {
  if (_mode == CostMode::exact) return true;
  return strategy == CostStrategy::pipeline ||
         (!isOwn(strategy) && strategy != CostStrategy::grid && strategy != CostStrategy::data_grid);
}

namespace {

/// Marks a strategy that cannot run: it has no times.
void refuse(Prediction& prediction, Obstacle obstacle, const std::string& detail = "") {
  prediction.obstacle = obstacle;
  prediction.detail = detail;
  prediction.epoch_compute = prediction.memory = std::numeric_limits<double>::quiet_NaN();
}

/// The obstacle in the numbers of ranks, samples and layers.
Obstacle gridObstacle(const CostTask& task, const Prediction& prediction) {
  const RankGrid& grid = prediction.grid;
  if (prediction.strategy == CostStrategy::serial && prediction.ranks > 1)
    return Obstacle::more_ranks_than_one;
  if (grid.stages > cuttableLayers(task.layers)) return Obstacle::more_ranks_than_layers;
  if (grid.stages * grid.replicas * grid.parts != prediction.ranks)
    return task.stages > 0 && cutsNetwork(prediction.strategy) ? Obstacle::stages_do_not_divide_ranks
                                                               : Obstacle::parts_do_not_divide_ranks;
  return static_cast<double>(grid.replicas) > prediction.batch ? Obstacle::more_ranks_than_batch
                                                               : Obstacle::none;
}

} // namespace

/// Training leaves out samples at the end of an epoch that do not fill a batch; the paper counts them.
Prediction CostModel::start(CostStrategy strategy, std::int64_t ranks,
                            const std::optional<RankGrid>& grid) const {
  Prediction prediction = startPrediction(terms(), strategy, ranks, grid);
  if (_mode == CostMode::exact)
    prediction.steps = std::max(1.0, std::floor(_task.samples / prediction.batch));
  if (_task.program == nullptr) return prediction;
  const RunSection& run = _task.program->deck().run;
  prediction.run_steps = run.steps > 0 ? asReal(run.steps) : asReal(run.epochs) * prediction.steps;
  return prediction;
}

Prediction CostModel::predict(CostStrategy strategy, std::int64_t ranks) const {
  Prediction prediction = start(strategy, ranks);
  if (isPipeline(strategy))
    prediction.microbatches = segmentsOf(_task, prediction.grid.stages);
  else if (_mode == CostMode::exact)
    prediction.microbatches = keptMicrobatches(strategy, _task.program->deck().strategy);
  fill(prediction);
  return prediction;
}

Prediction CostModel::predict(const RankChoice& choice) const {
  const RankGrid& grid = choice.grid;
  Prediction prediction = start(choice.strategy, grid.stages * grid.replicas * grid.parts, grid);
  prediction.split = choice.split;
  prediction.microbatches = choice.microbatches;
  fill(prediction);
  return prediction;
}

void CostModel::fill(Prediction& prediction) const {
  Obstacle obstacle = gridObstacle(_task, prediction);
  if (obstacle == Obstacle::none && _mode == CostMode::paper) obstacle = paperObstacle(terms(), prediction);
  if (obstacle != Obstacle::none) return refuse(prediction, obstacle);
  if (_mode == CostMode::paper)
    predictPaper(terms(), prediction);
  else
    predictPlan(prediction);
  checkMemory(prediction);
}

void CostModel::predictPlan(Prediction& prediction) const {
  try {
    predictRun(terms(), runFor(prediction), prediction);
  } catch (const UserError& error) {
    refuse(prediction, partsObstacle(_task, prediction), error.what());
  }
}

ProgramRun CostModel::runFor(const Prediction& prediction) const {
  return _task.program->run(sectionFor(prediction.choice(), _task.program->deck().strategy), prediction.ranks,
                            std::llround(prediction.batch));
}

Prediction CostModel::predict(const ProgramRun& run) const {
  const std::int64_t ranks = run.grid.size();
  StrategySection section = run.config.strategy;
  section.replicas = run.grid.replicas; // the deck may leave them open
  CostStrategy strategy = costStrategy(section);
  if (strategy == CostStrategy::data && ranks == 1) strategy = CostStrategy::serial;
  const RankGrid grid{run.grid.groups, run.grid.replicas, run.grid.parts};
  Prediction prediction = start(strategy, ranks, grid);
  prediction.split = run.grid.parts > 1 ? std::optional(run.config.strategy.split) : std::nullopt;
  predictRun(terms(), run, prediction);
  checkMemory(prediction);
  return prediction;
}

void CostModel::checkMemory(Prediction& prediction) const {
  if (prediction.feasible() && _cluster.memory > 0.0 && prediction.memory > _cluster.memory)
    prediction.obstacle = Obstacle::not_enough_memory;
}

} // namespace partita
