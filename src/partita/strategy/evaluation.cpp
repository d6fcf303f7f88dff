#include "partita/strategy/evaluation.hpp"

#include "partita/comm/message.hpp"
#include "partita/core/clock.hpp"
#include "partita/core/region.hpp"
#include "partita/data/order.hpp"
#include "partita/plan/strategy_plan.hpp"

namespace partita {

namespace {

/// Activations are never rounded in an evaluation, so that results do not depend on the number of ranks.
Channel channelTo(const Grid& grid, int group) {
  Channel channel = grid.channel(grid.evaluation(), group, Tag::evaluation, "activations to evaluate");
  channel.wire = Precision::single;
  return channel;
}

/// Runs the samples of this rank's replica through its stages, batch by batch: receives from the previous
/// rank, sends to the next one. `scores`: one per stage.
void evaluateShare(const ExecSpace& space, const RunConfig& config, Grid& grid,
                   const std::vector<std::unique_ptr<LocalStage>>& stages, const DataSets& sets,
                   const Dataset& set, const OutputRows& outputs, std::vector<Score>& scores) {
  const std::int64_t capacity = passCapacity(config, grid.replicas());
  const Slice part = replicaSlice(static_cast<std::int64_t>(set.size()), grid.replica(), grid.replicas());
  const std::int64_t batches = (part.end - part.begin + capacity - 1) / capacity;
  const bool first = grid.group() == 0, last = grid.group() + 1 == grid.plan().groups;
  const FeatureRows features(sets, set);
  BatchReader reader(first ? &features : nullptr, set, sequentialOrder(part.begin, part.end, capacity),
                     batches, capacity, config.data.prefetch);
  std::unique_ptr<Receiver> receiver;
  std::unique_ptr<Sender> sender;
  if (!first) {
    receiver = std::make_unique<Receiver>(channelTo(grid, grid.group() - 1), capacity,
                                          stages.front()->stage.inputs(), config.strategy.queue, batches);
  }
  if (!last) {
    sender =
        std::make_unique<Sender>(channelTo(grid, grid.group() + 1), capacity, stages.back()->stage.outputs(),
                                 config.strategy.queue, grid.traffic.evaluation);
  }
  for (Score& score : scores) score = Score(capacity * static_cast<std::int64_t>(set.labels_per_sample));
  Pass pass;
  pass.training = false;
  for (std::int64_t i = 0; i < batches; ++i) {
    alive();
    const Batch batch = reader.next(space);
    Matrix flow = first ? batch.features : receiver->next(space);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      flow = stages[s]->forwardJoined(space, pass, flow);
      if (stages[s]->loss == nullptr) continue;
      stages[s]->loss->evaluate(space, stages[s]->tape.output(), {batch.labels, Matrix()}, Real(1), Matrix(),
                                scores[s]);
    }
    if (!last) sender->send(space, flow);
    if (last && outputs) outputs(flow);
  }
}

} // namespace

Evaluation evaluateJoined(const ExecSpace& space, const RunConfig& config, Grid& grid,
                          const std::vector<std::unique_ptr<LocalStage>>& stages, const DataSets& sets,
                          const Dataset& set, const OutputRows& outputs) {
  const Region region(space, "partita::evaluateJoined", Phase::evaluation);
  std::vector<Score> scores(stages.size(), Score(0));
  if (grid.ownsStages()) evaluateShare(space, config, grid, stages, sets, set, outputs, scores);
  const auto count = static_cast<std::size_t>(grid.plan().stages);
  std::vector<double> sums(2 * count, 0.0);
  for (std::size_t s = 0; s < stages.size() && grid.part() == 0; ++s) {
    const Score::Sums own = scores[s].take(space);
    sums[2 * static_cast<std::size_t>(stages[s]->index())] = own.correct;
    sums[2 * static_cast<std::size_t>(stages[s]->index()) + 1] = own.loss;
  }
  grid.world().sum(sums);
  Evaluation result;
  for (std::size_t s = planOf(config.strategy).gradientsCross() ? count - 1 : 0; s < count; ++s) {
    result.accuracy.push_back(sums[2 * s] / static_cast<double>(set.labels.size()));
    result.loss.push_back(sums[2 * s + 1] / static_cast<double>(set.labels.size()));
  }
  return result;
}

bool Evaluator::due(std::int64_t step) const {
  const std::int64_t every = _context.config.run.evaluate_every * _context.length.per_epoch;
  return (every > 0 && step % every == 0) || step == _steps;
}

double Evaluator::afterStep(const ExecSpace& space, const Position& position, int trained, int number) {
  const std::int64_t per_epoch = _context.length.per_epoch, step = position.step;
  if (!due(step)) return 0.0;
  fence(space, "partita::Evaluator::afterStep");
  _context.grid.world().barrier(); // time that a fast rank waits belongs to training
  const auto start = Clock::now();
  const Dataset& set = _context.sets.validation.size() > 0 ? _context.sets.validation : _context.sets.test;
  Evaluation result =
      evaluateJoined(space, _context.config, _context.grid, _context.stages, _context.sets, set);
  const bool joined = trained == _context.grid.plan().stages;
  if (!joined) {
    result.accuracy.resize(static_cast<std::size_t>(trained));
    result.loss.resize(static_cast<std::size_t>(trained));
  }
  EvaluationReport report;
  report.stage = number;
  report.epoch = (step + per_epoch - 1) / per_epoch;
  report.step = step;
  report.run_step = _context.length.runStep(position);
  report.joined = joined;
  report.stage_accuracy = result.accuracy;
  report.stage_loss = result.loss;
  _context.observer.onEvaluation(report);
  const double seconds = secondsSince(start);
  _context.clock.evaluated(seconds);
  return seconds;
}

} // namespace partita
