#include "partita/plan/cost/cost_terms.hpp"
#include "partita/plan/cost/gradient_buckets.hpp"
#include "partita/plan/cost/pipeline_events.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

namespace {

/// A stage in a training step.
struct StageTime {
  double update = 0.0;               ///< seconds per step
  double outputs = 0.0;              ///< values per sample that cross the cut after it
  std::vector<GradientLayer> layers; ///< seconds per sample; the last one is its head and its labels

  double forward() const { return sum(&GradientLayer::forward); }
  double backward() const { return sum(&GradientLayer::backward); }

 private:
  double sum(double GradientLayer::*field) const {
    double all = 0.0;
    for (const GradientLayer& layer : layers) all += layer.*field;
    return all;
  }
};

/// What a rank does in a step of its stages.
struct RankTime {
  double compute = 0.0, exposed = 0.0;
  double total() const { return compute + exposed; }
};

/// Plans of this program: pipelines, stages with labels of their own, replicas that meet at intervals.
class ProgramModel {
 public:
  ProgramModel(const CostTerms& terms, const ProgramRun& run, Prediction& prediction)
      : _terms(terms), _run(run), _plan(planOf(run.config.strategy)), _prediction(prediction),
        _share(std::ceil(prediction.batch / asReal(run.grid.replicas))),
        _value_bytes(run.config.strategy.wire == Precision::single ? bytes_per_item : bytes_per_item / 2.0),
        _replicas(ringPath(terms.cluster, run.grid.size(), run.grid.replicas, run.grid.groups)) {
    for (const StagePlan& stage : run.partition.stages) _stages.push_back(timeOf(stage));
  }

  void fill() {
    _prediction.memory = _run.memory();
    switch (_prediction.strategy) {
    case CostStrategy::local_sgd:
      return localSgd();
    case CostStrategy::sil_frozen:
      return frozen();
    case CostStrategy::sil_free:
    case CostStrategy::sil_relay:
      return together();
    default:
      return pipeline();
    }
  }

 private:
  /// The rows of a stage. The FLOPs of its head, its labels and its decoder take as long as others.
  StageTime timeOf(const StagePlan& stage) const {
    const std::vector<LayerCost>& rows = _terms.task.layers;
    StageTime time;
    time.outputs = asReal(stage.outputs());
    const bool gradient_leaves = _plan.gradientsCross() && !stage.first();
    bool input_gradient = gradient_leaves;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].index < stage.firstLayer() || rows[i].index > stage.lastLayer()) continue;
      const double wanted = rows[i].weight_flops + (input_gradient ? rows[i].input_flops : 0.0);
      const double priced = backwardFlops(rows, i);
      const double part = priced > 0.0 ? wanted / priced : 1.0;
      time.layers.push_back(
          {_terms.times[i].forward, part * _terms.times[i].backward, _value_bytes * rows[i].parameters()});
      time.update += _terms.times[i].update;
      input_gradient = input_gradient || rows[i].trained();
    }
    const double head_parameters = asReal(countParameters(stage.decoder) + countParameters(stage.head));
    const double head_flops =
        _run.partition.local[stage.index].flops - stage.trainEffort(gradient_leaves).flops;
    const double seconds = head_flops * secondsPerFlop(_terms);
    time.layers.push_back({seconds / 3.0, 2.0 * seconds / 3.0, _value_bytes * head_parameters});
    time.update += head_parameters * _terms.cluster.seconds_per_update;
    return time;
  }

  double allReduce(double bytes) const {
    const int replicas = _run.grid.replicas;
    return _replicas.link.seconds(ringAllReduce(replicas, bytes), _replicas.flows) +
           bytes * asReal(replicas - 1) / asReal(replicas) * _terms.cluster.seconds_per_reduced_byte;
  }

  /// The sums of a stage's gradients, with passes over `rows` samples.
  Exchange sumsOf(const StageTime& stage, double rows) const {
    std::vector<GradientLayer> layers = stage.layers;
    for (GradientLayer& layer : layers) {
      layer.forward *= rows;
      layer.backward *= rows;
    }
    return gradientExchange(layers, bucketRule(_run.config), _run.grid.replicas, _terms.cluster.overlap,
                            [this](double bytes) { return allReduce(bytes); });
  }

  /// Two sums and two gradients of sums per channel, in each pass.
  void synchroniseNorms(double passes) {
    for (const LayerCost& row : _terms.task.layers) {
      if (!row.synchronised) continue;
      const double bytes = 2.0 * row.channels() * bytes_per_item, sums = 2.0 * passes;
      const Messages messages = ringAllReduce(_run.grid.replicas, bytes);
      _prediction.add({ExchangeKind::batch_norm, sums * messages.count,
                       sums * messages.count * messages.bytes, sums * allReduce(bytes)});
    }
  }

  double computeOf(const StageTime& stage) const {
    return _share * (stage.forward() + stage.backward()) + stage.update;
  }

  /// The link from the last stage of a rank to the next rank.
  const Link& linkAfter(int group) const {
    const std::int64_t node = _terms.cluster.node_ranks;
    const bool inside = group / node == (group + 1) / node;
    return _terms.cluster.links.of(inside ? std::min<std::int64_t>(node, _run.grid.size())
                                          : _run.grid.size());
  }

  /// The stages of a rank, one after another, and the sums of their gradients.
  RankTime rankTime(int group, Exchange& sums) const {
    RankTime time;
    for (int i = _run.grid.first_stage[group]; i < _run.grid.first_stage[group + 1]; ++i) {
      time.compute += computeOf(_stages[i]);
      sums += sumsOf(_stages[i], _share);
    }
    time.exposed = sums.seconds;
    return time;
  }

  /// All ranks train at once, and each has only to keep up: the slowest rank or the slowest link decides.
  /// Activations travel while the next batch is computed.
  void together() {
    const GridPlan& grid = _run.grid;
    const bool relays = _prediction.strategy == CostStrategy::sil_relay;
    RankTime slowest;
    Exchange sums{ExchangeKind::gradients}, stage{ExchangeKind::stage};
    for (int group = 0; group < grid.groups; ++group) {
      Exchange own{ExchangeKind::gradients};
      const RankTime time = rankTime(group, own);
      if (time.total() > slowest.total()) {
        slowest = time;
        sums = own;
      }
      if (!relays || group + 1 == grid.groups) continue;
      const double bytes = _share * _value_bytes * _stages[grid.first_stage[group + 1] - 1].outputs;
      const double seconds = linkAfter(group).seconds(bytes);
      if (seconds > stage.hidden) stage = {ExchangeKind::stage, 1.0, bytes, 0.0, seconds};
    }
    const double exposed = std::max(0.0, stage.hidden - _terms.cluster.overlap * slowest.total());
    stage.seconds = std::min(stage.hidden, exposed);
    stage.hidden -= stage.seconds;
    _prediction.epoch_compute = _prediction.steps * slowest.compute;
    _prediction.add(sums);
    _prediction.add(stage);
    synchroniseNorms(1.0);
  }

  /// Stages train one after another. In its first epoch a stage gets the activations of all samples, which
  /// the finished stage before it computes meanwhile on its own rank, or else on the same rank.
  void frozen() {
    const GridPlan& grid = _run.grid;
    const RunSection& length = _run.config.run;
    const double epochs = length.steps > 0 ? asReal(length.steps) / _prediction.steps : asReal(length.epochs);
    double compute = 0.0, busiest = 0.0;
    for (int group = 0; group < grid.groups; ++group) {
      Exchange sums{ExchangeKind::gradients};
      const double own_stages = rankTime(group, sums).compute;
      compute += own_stages;
      busiest = std::max(busiest, own_stages);
      _prediction.add(sums);
      for (int i = grid.first_stage[group]; i < grid.first_stage[group + 1]; ++i) {
        if (i == 0) continue;
        const double forward = _prediction.batch * _stages[i - 1].forward(), own = computeOf(_stages[i]);
        const bool same_rank = i > grid.first_stage[group];
        compute += (same_rank ? forward : std::max(0.0, forward - own)) / epochs;
        if (same_rank) continue;
        const double bytes = _prediction.batch * _value_bytes * _stages[i - 1].outputs;
        const double seconds = linkAfter(group - 1).seconds(bytes);
        const double exposed = std::max(0.0, seconds - std::max(own, forward));
        _prediction.add({ExchangeKind::stage, 1.0 / epochs, bytes / epochs, exposed / epochs,
                         (seconds - exposed) / epochs});
      }
    }
    _prediction.epoch_compute = _prediction.steps * compute;
    _prediction.epoch_idle = _prediction.steps * (compute - busiest);
    synchroniseNorms(1.0);
  }

  /// Replicas of the whole network that sum what they have learned every few steps.
  void localSgd() {
    const StageTime& whole = _stages.front();
    const double every = asReal(_run.config.strategy.local_sgd.every);
    BucketRule rule = bucketRule(_run.config);
    rule.late = false;
    std::vector<GradientLayer> idle = whole.layers; // nothing is computed meanwhile
    for (GradientLayer& layer : idle) layer.forward = layer.backward = 0.0;
    const Exchange sums = gradientExchange(idle, rule, _run.grid.replicas, _terms.cluster.overlap,
                                           [this](double bytes) { return allReduce(bytes); });
    _prediction.epoch_compute = _prediction.steps * computeOf(whole);
    _prediction.add({ExchangeKind::parameters, sums.messages / every, sums.bytes / every,
                     sums.seconds / every, sums.hidden / every});
  }

  void pipeline();

  const CostTerms& _terms;
  const ProgramRun& _run;
  const StrategyPlan& _plan;
  Prediction& _prediction;
  double _share;       ///< samples of a replica, per step
  double _value_bytes; ///< of a value on its way
  RingPath _replicas;  ///< of the rings of all groups of stages
  std::vector<StageTime> _stages;
};

/// Gradients are final in the backward pass of the last microbatch, and parameters are wanted in the forward
/// pass of the first one.
void ProgramModel::pipeline() {
  const GridPlan& grid = _run.grid;
  const StrategySection& strategy = _run.config.strategy;
  const std::int64_t segments = microbatchesOf(strategy, std::llround(_share));
  const double rows = std::ceil(_share / asReal(segments));
  std::vector<PipelineStage> ranks(grid.groups);
  double update = 0.0, sent = 0.0, before = 0.0, busiest = 0.0;
  Exchange sums{ExchangeKind::gradients};
  for (int group = 0; group < grid.groups; ++group) {
    double own_update = 0.0, outputs = 0.0;
    Exchange own{ExchangeKind::gradients};
    for (int i = grid.first_stage[group]; i < grid.first_stage[group + 1]; ++i) {
      ranks[group].forward += rows * _stages[i].forward();
      ranks[group].backward += rows * _stages[i].backward();
      own_update += _stages[i].update;
      outputs = rows * _value_bytes * _stages[i].outputs;
      own += sumsOf(_stages[i], rows);
    }
    if (own.seconds + own.hidden > sums.seconds + sums.hidden) sums = own;
    update = std::max(update, own_update);
    busiest = std::max(busiest, asReal(segments) * (ranks[group].forward + ranks[group].backward));
    const bool last = group + 1 == grid.groups;
    sent = std::max(sent, (last ? 0.0 : outputs) + before);
    before = outputs;
  }
  const double alone = pipelineSeconds(ranks, segments, strategy);
  for (int group = 0; group + 1 < grid.groups; ++group)
    ranks[group].message =
        linkAfter(group).seconds(rows * _value_bytes * _stages[grid.first_stage[group + 1] - 1].outputs);
  _prediction.microbatches = segments;
  _prediction.epoch_compute = _prediction.steps * (alone + update);
  _prediction.epoch_idle = _prediction.steps * (alone - busiest);
  _prediction.add(sums);
  synchroniseNorms(asReal(segments));
  if (grid.groups > 1)
    _prediction.add({ExchangeKind::stage, asReal(segments) * (grid.groups > 2 ? 2.0 : 1.0),
                     asReal(segments) * sent, pipelineSeconds(ranks, segments, strategy) - alone});
}

} // namespace

void predictRun(const CostTerms& terms, const ProgramRun& run, Prediction& prediction) {
  ProgramModel(terms, run, prediction).fill();
}

} // namespace partita
