#include "partita/plan/cost/pipeline_events.hpp"
#include "partita/plan/cost/stage_time.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

namespace {

/// What a rank does in a step of its stages.
struct RankTime {
  double compute = 0.0;
  Exchange sums{ExchangeKind::gradients}; ///< over replicas
  Exchange norms{ExchangeKind::norm};     ///< sums of statistics over replicas
  std::vector<Exchange> of_parts;         ///< with the other parts of its stages

  double total() const {
    double seconds = compute + sums.seconds + norms.seconds;
    for (const Exchange& exchange : of_parts) seconds += exchange.seconds;
    return seconds;
  }
};

/// The ranks of a pipeline: seconds per microbatch, with and without messages of parts and between stages.
struct PipelineRanks {
  std::vector<PipelineStage> alone, with_parts;
  double update = 0.0, busiest = 0.0; ///< of the rank that needs longest
  double sent = 0.0;                  ///< bytes between stages per microbatch, by the rank that sends most
  Exchange sums{ExchangeKind::gradients}; ///< of the rank that sums longest
  Exchange norms{ExchangeKind::norm};     ///< per step, of the rank that sums longest
  std::vector<Exchange> of_parts;         ///< per microbatch, of the rank that exchanges longest
  double parts_seconds = 0.0;             ///< of these
};

/// Plans of this program: whole networks, pipelines, stages with their own labels, and replicas that meet
/// every few steps; each with or without parts that share its layers.
class ProgramModel {
 public:
  ProgramModel(const CostTerms& terms, const ProgramRun& run, Prediction& prediction)
      : _terms(terms), _run(run), _plan(planOf(run.config.strategy)), _prediction(prediction),
        _share(std::llround(std::ceil(prediction.batch / asReal(run.grid.replicas)))),
        _rows(_plan.passRows(run.config.strategy, std::llround(prediction.batch), run.grid.replicas)),
        _message_bytes(bytesPerItem(messagePrecision(run.config))),
        _sharing(terms.cluster.sharing(run.grid.groups, run.grid.size())), _summing(summingRanks()),
        _replicas(ringPath(terms.cluster, run.grid.size(), run.grid.replicas,
                           std::int64_t{run.grid.groups} * run.grid.parts)),
        _sums(_summing == run.grid.replicas
                  ? _replicas
                  : ringPath(terms.cluster, run.grid.size(), _summing, run.grid.groups)) {
    for (int stage = 0; stage < run.grid.stages; ++stage)
      _stages.push_back(stageTime(terms, run, stage, _rows));
  }

  void fill() {
    _prediction.memory = _run.memory();
    switch (formOf(_prediction.strategy).order) {
    case RankOrder::meetings:
      return meetings();
    case RankOrder::stages_in_turn:
      return frozen();
    case RankOrder::stages_apart:
      return together(false);
    case RankOrder::stages_in_relay:
      return together(true);
    case RankOrder::in_step:
      return pipeline();
    }
  }

 private:
  /// Parts that divide places have the same parameters, and add up their gradients too.
  int summingRanks() const {
    return _run.grid.replicas * (dividesPlaces(_run.config.strategy) ? _run.grid.parts : 1);
  }

  SumTime sumTime(const RingPath& path, int ranks, double bytes) const {
    const Messages messages = allReduce(ranks, bytes);
    const double latency = messages.count * path.link.shortest(),
                 additions =
                     bytes * asReal(ranks - 1) / asReal(ranks) * _terms.cluster.seconds_per_reduced_byte;
    return {path.link.seconds(messages, path.flows) - latency + additions, latency};
  }

  /// The sums of a stage's gradients.
  Exchange sumsOf(const std::vector<GradientLayer>& layers, const BucketRule& rule) const {
    return gradientExchange(layers, rule, _summing, _terms.cluster.overlap,
                            [this](double bytes) { return sumTime(_sums, _summing, bytes); });
  }

  /// Sums of a stage's statistics over replicas in a step; nothing is computed meanwhile.
  Exchange normsOf(const StageTime& stage, double passes) const {
    Exchange norms{ExchangeKind::norm};
    const auto add = [&](double values, double times) {
      const double bytes = values * bytes_per_item;
      const Messages messages = allReduce(_run.grid.replicas, bytes);
      const SumTime time = sumTime(_replicas, _run.grid.replicas, bytes);
      norms += {ExchangeKind::norm, times * messages.count, times * messages.count * messages.bytes,
                times * (time.busy + time.latency)};
    };
    for (const double values : stage.statistic_sums) add(values, passes);
    if (stage.statistics > 0.0) add(stage.statistics, 1.0);
    return norms;
  }

  /// Seconds until all groups of ranks have ended, if they begin together. Each computes for one of these
  /// times, which were measured with all ranks at work; a group that has ended leaves cores and memory to
  /// others.
  double shared(std::vector<double> seconds) const {
    std::sort(seconds.begin(), seconds.end());
    double end = 0.0, last = 0.0;
    std::size_t working = seconds.size();
    for (const double time : seconds) {
      end += (time - last) * _sharing.slowdowns[working--];
      last = time;
    }
    return end;
  }

  /// Seconds of a step in one pass.
  static double computeOf(const StageTime& stage) { return stage.compute() + stage.update; }

  /// The link from a rank's last stage to the next rank.
  const Link& linkAfter(int group) const {
    const GridPlan& grid = _run.grid;
    return _terms.cluster.linkAfter(group, grid.groups, std::int64_t{grid.replicas} * grid.parts);
  }

  /// The stages of a rank, one after another, and the sums of their gradients.
  RankTime rankTime(int group, double passes = 1.0) const {
    RankTime time;
    for (int i = _run.grid.first_stage[group]; i < _run.grid.first_stage[group + 1]; ++i) {
      time.compute += computeOf(_stages[i]);
      time.sums += sumsOf(_stages[i].layers, bucketRule(_run.config));
      time.norms += normsOf(_stages[i], passes);
      for (const Exchange& exchange : _stages[i].exchanges) addExchange(time.of_parts, exchange);
    }
    return time;
  }

  /// All ranks train at once, so the slowest rank or the slowest link decides. Activations travel while the
  /// next batch is computed.
  void together(bool relays) {
    const GridPlan& grid = _run.grid;
    RankTime slowest;
    std::vector<double> computing;
    Exchange stage{ExchangeKind::stage};
    for (int group = 0; group < grid.groups; ++group) {
      const RankTime time = rankTime(group);
      computing.push_back(time.compute);
      if (time.total() > slowest.total()) slowest = time;
      if (!relays || group + 1 == grid.groups) continue;
      const double bytes = asReal(_share) * _message_bytes * _stages[grid.first_stage[group + 1] - 1].outputs;
      const double seconds = linkAfter(group).seconds(bytes);
      if (seconds > stage.hidden) stage = {ExchangeKind::stage, 1.0, bytes, 0.0, seconds};
    }
    slowest.compute = std::min(slowest.compute, shared(computing));
    const double exposed = std::max(0.0, stage.hidden - _terms.cluster.overlap * slowest.total());
    stage.seconds = std::min(stage.hidden, exposed);
    stage.hidden -= stage.seconds;
    _prediction.epoch_compute = _prediction.steps * slowest.compute;
    _prediction.add(slowest.sums);
    _prediction.add(slowest.norms);
    for (const Exchange& exchange : slowest.of_parts) _prediction.add(exchange);
    _prediction.add(stage);
  }

  /// Stages train one after another. In its first epoch a stage gets the activations of all samples. The
  /// finished stage before it computes them, either meanwhile on its own rank or beforehand on the same rank.
  void frozen() {
    const GridPlan& grid = _run.grid;
    const RunSection& length = _run.config.run;
    const double epochs =
        length.steps > 0 ? std::max(1.0, asReal(length.steps) / _prediction.steps) : asReal(length.epochs);
    double compute = 0.0, busiest = 0.0;
    for (int group = 0; group < grid.groups; ++group) {
      const RankTime rank = rankTime(group);
      double own_rank = rank.compute, idle = 0.0;
      _prediction.add(rank.sums);
      _prediction.add(rank.norms);
      for (const Exchange& exchange : rank.of_parts) _prediction.add(exchange);
      for (int i = grid.first_stage[group]; i < grid.first_stage[group + 1]; ++i) {
        if (i == 0) continue;
        const double forward = asReal(_run.grid.replicas) * _stages[i - 1].forward(),
                     own = computeOf(_stages[i]);
        const bool same_rank = i > grid.first_stage[group];
        if (same_rank) {
          own_rank += forward / epochs;
          continue;
        }
        idle += std::max(0.0, forward - own) / epochs;
        const double bytes = _prediction.batch * _message_bytes * _stages[i - 1].outputs;
        const double seconds = linkAfter(group - 1).seconds(bytes);
        const double exposed = std::max(0.0, seconds - _terms.cluster.overlap * std::max(own, forward));
        _prediction.add({ExchangeKind::stage, 1.0 / epochs, bytes / epochs, exposed / epochs,
                         (seconds - exposed) / epochs});
      }
      compute += own_rank + idle;
      busiest = std::max(busiest, own_rank);
    }
    _prediction.epoch_compute = _prediction.steps * shared({compute});
    _prediction.epoch_idle = _prediction.steps * shared({compute - busiest});
  }

  /// Replicas of the whole network that sum their changes every few steps.
  void meetings() {
    const StageTime& whole = _stages.front();
    const Meetings meetings = _plan.meetings(_run.config.strategy);
    const double every = asReal(meetings.every);
    const double meeting_seconds = // per parameter
        meetings.copied_values * bytes_per_item * _terms.cluster.seconds_per_copied_byte;
    BucketRule rule = bucketRule(_run.config);
    rule.late = false;
    std::vector<GradientLayer> idle = whole.layers; // nothing is computed meanwhile
    double values = 0.0;
    for (GradientLayer& layer : idle) {
      layer.forward = layer.backward = 0.0;
      values += layer.bytes / bytesPerItem(sumPrecision(_run.config.strategy));
    }
    const Exchange sums = sumsOf(idle, rule);
    const double passes = asReal(microbatchesOf(_run.config.strategy, _share));
    _prediction.epoch_compute =
        _prediction.steps * (passes * whole.compute() + whole.update + values * meeting_seconds / every);
    _prediction.add({ExchangeKind::parameters, sums.messages / every, sums.bytes / every,
                     sums.seconds / every, sums.hidden / every});
    const Exchange norms = normsOf(whole, 0.0); // running statistics
    _prediction.add({norms.kind, norms.messages / every, norms.bytes / every, norms.seconds / every});
  }

  PipelineRanks pipelineRanks(std::int64_t segments) const;
  void pipeline();

  const CostTerms& _terms;
  const ProgramRun& _run;
  const StrategyPlan& _plan;
  Prediction& _prediction;
  std::int64_t _share, _rows; ///< samples of a replica: per step, per pass
  double _message_bytes;      ///< of a value in a message between stages
  CoreSharing _sharing;       ///< by groups of ranks
  int _summing;               ///< ranks that add up the gradients of a stage
  RingPath _replicas;         ///< of the rings of replicas, for all stages and parts at once
  RingPath _sums;             ///< of the rings that add up gradients
  std::vector<StageTime> _stages;
};

PipelineRanks ProgramModel::pipelineRanks(std::int64_t segments) const {
  const GridPlan& grid = _run.grid;
  PipelineRanks ranks;
  double before = 0.0;
  for (int group = 0; group < grid.groups; ++group) {
    PipelineStage alone, with_parts;
    double own_update = 0.0, own_parts = 0.0, outputs = 0.0;
    const RankTime rank = rankTime(group, asReal(segments));
    for (int i = grid.first_stage[group]; i < grid.first_stage[group + 1]; ++i) {
      const StageTime& stage = _stages[i];
      alone.forward += stage.forward();
      alone.backward += stage.backward();
      with_parts.forward += stage.forward() + stage.exchange_forward;
      with_parts.backward += stage.backward() + stage.exchange_backward;
      own_update += stage.update;
      own_parts += stage.exchangeSeconds();
      outputs = asReal(_rows) * _message_bytes * stage.outputs;
    }
    if (rank.sums.seconds + rank.sums.hidden > ranks.sums.seconds + ranks.sums.hidden) ranks.sums = rank.sums;
    if (rank.norms.seconds > ranks.norms.seconds) ranks.norms = rank.norms;
    if (ranks.of_parts.empty() || own_parts > ranks.parts_seconds) {
      ranks.of_parts = rank.of_parts;
      ranks.parts_seconds = own_parts;
    }
    ranks.update = std::max(ranks.update, own_update);
    ranks.busiest = std::max(ranks.busiest, alone.forward + alone.backward);
    ranks.sent = std::max(ranks.sent, (group + 1 == grid.groups ? 0.0 : outputs) + before);
    before = outputs;
    ranks.alone.push_back(alone);
    ranks.with_parts.push_back(with_parts);
  }
  return ranks;
}

/// Gradients are final in the backward pass of the last microbatch, and parameters are needed in the forward
/// pass of the first one.
void ProgramModel::pipeline() {
  const GridPlan& grid = _run.grid;
  const StrategySection& strategy = _run.config.strategy;
  const std::int64_t segments = microbatchesOf(strategy, _share);
  PipelineRanks ranks = pipelineRanks(segments);
  const auto seconds = [&](const std::vector<PipelineStage>& stages) {
    return pipelineSeconds(stages, segments, strategy, _sharing);
  };
  const double alone = seconds(ranks.alone), with_parts = grid.parts > 1 ? seconds(ranks.with_parts) : alone;
  for (int group = 0; group + 1 < grid.groups; ++group) {
    PipelineStage& stage = ranks.with_parts[group];
    stage.message = linkAfter(group).seconds(asReal(_rows) * _message_bytes *
                                             _stages[grid.first_stage[group + 1] - 1].outputs);
    stage.copying = (1.0 - _terms.cluster.overlap) * stage.message;
  }
  _prediction.microbatches = segments;
  _prediction.epoch_compute = _prediction.steps * (alone + ranks.update);
  const double idle = grid.groups > 1 ? std::max(0.0, alone - asReal(segments) * ranks.busiest) : 0.0;
  _prediction.epoch_idle = _prediction.steps * idle;
  _prediction.add(ranks.sums);
  _prediction.add(ranks.norms);
  // Exchanges of parts take as long as they prolong the simulation, whichever rank they are on.
  const double longer = ranks.parts_seconds > 0.0 ? (with_parts - alone) / ranks.parts_seconds : 0.0;
  for (Exchange exchange : ranks.of_parts) {
    exchange.messages *= asReal(segments);
    exchange.bytes *= asReal(segments);
    exchange.seconds *= longer;
    exchange.hidden *= asReal(segments);
    _prediction.add(exchange);
  }
  if (grid.groups > 1)
    _prediction.add({ExchangeKind::stage, asReal(segments) * (grid.groups > 2 ? 2.0 : 1.0),
                     asReal(segments) * ranks.sent, seconds(ranks.with_parts) - with_parts});
}

} // namespace

void predictRun(const CostTerms& terms, const ProgramRun& run, Prediction& prediction) {
  ProgramModel(terms, run, prediction).fill();
}

} // namespace partita
