#include "partita/strategy/evaluation.hpp"

#include "partita/comm/message.hpp"
#include "partita/comm/wait_times.hpp"
#include "partita/core/clock.hpp"
#include "partita/core/error.hpp"
#include "partita/core/region.hpp"
#include "partita/data/order.hpp"
#include "partita/nn/softmax.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/divergence.hpp"

#include <cmath>

namespace partita {

namespace {

using Stages = std::vector<std::unique_ptr<LocalStage>>;

/// One score per stage of this rank.
struct StageScores {
  std::vector<Score> joined; ///< within the joined network
  std::vector<Score> alone;  ///< of the stage's own prediction; empty unless exits are added
};

/// Nothing is rounded for a message of an evaluation, so that results do not depend on the number of ranks.
Channel channelTo(const Grid& grid, int group, Tag tag, Precision stored) {
  return grid.exactChannel(grid.evaluation(), group, tag, waits::evaluated_activations, stored);
}

/// The samples of a replica on their way through the stages of this rank, batch by batch: from the previous
/// rank, to the next one. If the joined network adds up what its stages predict, the sum travels with them;
/// if it does so with fitted weights, also the sum with these. Fitted weights are those of the whole network:
/// a network that ends early has equal weights.
class EvaluatedShare {
 public:
  EvaluatedShare(const RunConfig& config, Grid& grid, const Stages& stages, std::int64_t labels, int count);

  void run(const ExecSpace& space, const DataSets& sets, const Dataset& set, const OutputRows& outputs,
           StageScores& scores);

 private:
  bool last() const { return _grid.endStage() >= _count; }
  void openStreams(std::int64_t batches);
  TypedMatrix addUp(const ExecSpace& space, LocalStage& stage, const TypedMatrix& own);
  /// Of all sums, for `rows` samples.
  Matrix sums(std::int64_t rows) const { return topRows(_sums, rows * (_fitted ? 2 : 1)); }

  const RunConfig& _config;
  Grid& _grid;
  const Stages& _stages;
  int _count;
  std::int64_t _capacity, _labels;
  bool _adds, _fitted;
  /// [samples, labels * classes] with equal weights, then the same with fitted ones; empty unless exits are
  /// added.
  Matrix _sums;
  std::unique_ptr<Receiver> _receiver, _sums_before;
  std::unique_ptr<Sender> _sender, _sums_after;
};

EvaluatedShare::EvaluatedShare(const RunConfig& config, Grid& grid, const Stages& stages, std::int64_t labels,
                               int count)
    : _config(config), _grid(grid), _stages(stages), _count(count),
      _capacity(passCapacity(config, grid.replicas())), _labels(labels),
      _adds(joinedForm(config.strategy).adds_exits),
      _fitted(_adds && count == grid.plan().stages && stages.front()->exit_weight.has_value()) {
  if (!_adds) return;
  const std::int64_t classes = stages.front()->stage.plan().layers.back().classes;
  _sums = makeMatrix("partita::EvaluatedShare::sums", (_fitted ? 2 : 1) * _capacity, labels * classes);
}

void EvaluatedShare::openStreams(std::int64_t batches) {
  const std::int64_t queue = _config.strategy.queue, sums = static_cast<std::int64_t>(_sums.extent(1)),
                     rows_of_sums = static_cast<std::int64_t>(_sums.extent(0));
  const int group = _grid.group();
  if (group > 0) {
    const Stage& first = _stages.front()->stage;
    _receiver =
        std::make_unique<Receiver>(channelTo(_grid, group - 1, Tag::evaluation, first.inputPrecision()),
                                   _capacity, first.inputs(), queue, batches);
    if (_adds)
      _sums_before = std::make_unique<Receiver>(channelTo(_grid, group - 1, Tag::exits, Precision::single),
                                                rows_of_sums, sums, queue, batches);
  }
  if (!last()) {
    const Stage& end = _stages.back()->stage;
    _sender = std::make_unique<Sender>(channelTo(_grid, group + 1, Tag::evaluation, end.outputPrecision()),
                                       _capacity, end.outputs(), queue, _grid.traffic.evaluation);
    if (_adds)
      _sums_after = std::make_unique<Sender>(channelTo(_grid, group + 1, Tag::exits, Precision::single),
                                             rows_of_sums, sums, queue, _grid.traffic.evaluation);
  }
}

/// Adds the stage's own prediction. Returns what the joined network predicts if it ends with this stage.
TypedMatrix EvaluatedShare::addUp(const ExecSpace& space, LocalStage& stage, const TypedMatrix& own) {
  const std::int64_t rows = stage.tape.rows, classes = static_cast<std::int64_t>(_sums.extent(1)) / _labels;
  const auto add = [&](const Matrix& sum, double weight, double keep) {
    addLogSoftmax(space, own.inRowsOf(classes), static_cast<Real>(weight), static_cast<Real>(keep),
                  TypedMatrix(sum).inRowsOf(classes).real());
  };
  const Matrix equal = topRows(_sums, rows);
  const double own_weight = 1.0 / (stage.index() + 1);
  add(equal, own_weight, 1.0 - own_weight); // the mean of the log-probabilities up to this stage
  if (!_fitted) return equal;
  const Matrix fitted = rowsFrom(_sums, rows, rows);
  add(fitted, *stage.exit_weight, stage.index() == 0 ? 0.0 : 1.0);
  return stage.last() ? fitted : equal;
}

void EvaluatedShare::run(const ExecSpace& space, const DataSets& sets, const Dataset& set,
                         const OutputRows& outputs, StageScores& scores) {
  const IndexRange part = shareOf(static_cast<std::int64_t>(set.size()), _grid.replica(), _grid.replicas());
  const std::int64_t batches = (part.size() + _capacity - 1) / _capacity;
  const bool first = _grid.group() == 0;
  const FeatureRows features(sets, set);
  BatchReader reader(first ? &features : nullptr, set, sequentialOrder(part.begin, part.end, _capacity),
                     batches, _capacity, _config.data.prefetch);
  openStreams(batches);
  for (std::vector<Score>* const kind : {&scores.joined, &scores.alone})
    for (Score& score : *kind) score = Score(_capacity * _labels);
  Pass pass;
  pass.training = false;
  for (std::int64_t i = 0; i < batches; ++i) {
    alive();
    const Batch batch = reader.next(space);
    TypedMatrix flow = first ? TypedMatrix(batch.features) : _receiver->next(space);
    if (_sums_before != nullptr) {
      const TypedMatrix before = _sums_before->next(space);
      copyValues(space, before, topRows(_sums, before.rows));
    }
    TypedMatrix predictions;
    for (std::size_t s = 0; s < _stages.size() && _stages[s]->index() < _count; ++s) {
      LocalStage& stage = *_stages[s];
      flow = stage.forwardJoined(space, pass, flow);
      if (stage.loss == nullptr) continue;
      const auto evaluate = [&](const TypedMatrix& predicted, Score& score) {
        stage.loss->evaluate(space, predicted, {batch.labels, Matrix()}, Real(1), Matrix(), score);
      };
      const TypedMatrix own = stage.predict(space, pass, stage.outputForLoss(space, stage.tape));
      if (_adds) evaluate(own, scores.alone[s]);
      predictions = _adds ? addUp(space, stage, own) : own;
      evaluate(predictions, scores.joined[s]);
    }
    if (_sender != nullptr) _sender->send(space, flow);
    if (_sums_after != nullptr) _sums_after->send(space, sums(flow.rows));
    if (last() && outputs) outputs(predictions);
  }
  for (Sender* const sender : {_sender.get(), _sums_after.get()})
    if (sender != nullptr) sender->finish();
}

} // namespace

Evaluation evaluateJoined(const ExecSpace& space, const RunConfig& config, Grid& grid, const Stages& stages,
                          const DataSets& sets, const Dataset& set, const OutputRows& outputs,
                          int first_stages) {
  const Region region(space, "partita::evaluateJoined", Phase::evaluation);
  const bool adds = joinedForm(config.strategy).adds_exits;
  StageScores scores{std::vector<Score>(stages.size(), Score(0)),
                     std::vector<Score>(adds ? stages.size() : 0, Score(0))};
  const int used = first_stages > 0 ? first_stages : grid.plan().stages;
  const std::int64_t labels = set.labels_per_sample;
  const auto count_parts = [&stages](bool counts) {
    for (const auto& stage : stages) stage->countTraffic(counts);
  };
  count_parts(false); // only training counts
  if (grid.ownsStages() && grid.firstStage() < used)
    EvaluatedShare(config, grid, stages, labels, used).run(space, sets, set, outputs, scores);
  count_parts(true);
  const std::size_t count = static_cast<std::size_t>(used), numbers = adds ? 3 : 2; // of each stage
  std::vector<double> sums(numbers * count, 0.0);
  for (std::size_t s = 0; s < stages.size() && stages[s]->index() < used && grid.part() == 0; ++s) {
    double* const mine = &sums[numbers * static_cast<std::size_t>(stages[s]->index())];
    const Score::Sums joined = scores.joined[s].take(space);
    mine[0] = joined.correct;
    mine[1] = joined.loss;
    if (adds) mine[2] = scores.alone[s].take(space).correct;
  }
  grid.world().sum(sums);
  Evaluation result;
  for (std::size_t s = planOf(config.strategy).gradientsCross() ? count - 1 : 0; s < count; ++s) {
    const auto mean = [&](std::size_t sum) {
      return sums[numbers * s + sum] / static_cast<double>(set.labels.size());
    };
    result.accuracy.push_back(mean(0));
    result.loss.push_back(mean(1));
    if (adds) result.alone.push_back(mean(2));
  }
  return result;
}

double perplexityOf(const RunConfig& config, const Partition& partition, double loss) {
  const bool tokens = partition.stages.back().sequence;
  return tokens && config.training.loss == LossKind::cross_entropy ? std::exp(loss) : 0.0;
}

bool Evaluator::due(std::int64_t step) const {
  const std::int64_t every = _context.config.run.evaluate_every * _context.length.per_epoch;
  return (every > 0 && step % every == 0) || step == _steps;
}

void Evaluator::afterStep(const ExecSpace& space, const Position& position, int trained, int number,
                          const std::vector<StageUpdater*>& updaters) {
  const std::int64_t per_epoch = _context.length.per_epoch, step = position.step;
  if (!due(step)) return;
  finishUpdates(space, updaters); // counts as training time
  fence(space, "partita::Evaluator::afterStep");
  _context.grid.world().barrier(); // time that a fast rank waits belongs to training
  const UncountedWaits uncounted;
  const auto start = Clock::now();
  _context.control.evaluates();
  const Dataset& set = _context.sets.validation.size() > 0 ? _context.sets.validation : _context.sets.test;
  Evaluation result =
      evaluateJoined(space, _context.config, _context.grid, _context.stages, _context.sets, set);
  const bool joined = trained == _context.grid.plan().stages;
  for (std::vector<double>* const values : {&result.accuracy, &result.loss, &result.alone})
    if (!joined && !values->empty()) values->resize(static_cast<std::size_t>(trained));
  EvaluationReport report;
  report.stage = number;
  report.epoch = (step + per_epoch - 1) / per_epoch;
  report.step = step;
  report.run_step = _context.length.runStep(position);
  report.joined = joined;
  report.stage_accuracy = result.accuracy;
  report.stage_loss = result.loss;
  report.stage_alone = result.alone;
  _context.observer.onEvaluation(report);
  _loss = report.stage_loss.back();
  const double seconds = secondsSince(start);
  if (step == _steps && set.size() > 0 && !std::isfinite(_loss) && _context.grid.world().rank() == 0) {
    BeforeDivergence::happen();
    throw RunError("after the last step, the loss of the evaluation is not finite (try a smaller "
                   "optimiser/learning_rate)");
  }
  _context.clock.evaluated(seconds);
  _context.control.evaluated(seconds);
  for (StageUpdater* updater : updaters) updater->pause(seconds);
}

} // namespace partita
