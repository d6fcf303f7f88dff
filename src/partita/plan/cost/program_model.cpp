#include "partita/plan/cost/pipeline_events.hpp"
#include "partita/plan/cost/rank_time.hpp"
#include "partita/plan/cost/step_sums.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/plan/share.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

namespace {

/// Plans of this program: whole networks, pipelines, stages with their own labels, and replicas that meet
/// every few steps; each with or without parts that share its layers.
class ProgramModel {
 public:
  ProgramModel(const CostTerms& terms, const ProgramRun& run, Prediction& prediction)
      : _terms(terms), _run(run), _plan(planOf(run.config.strategy)), _prediction(prediction),
        _share(std::llround(std::ceil(prediction.batch / asReal(run.grid.replicas)))),
        _rows(_plan.passRows(run.config.strategy, std::llround(prediction.batch), run.grid.replicas)),
        _passes(_rows < _share ? microbatchesOf(run.config.strategy, _share) : 1),
        _smaller(_passes > 1 ? _passes * _rows - _share : 0),
        _message_bytes(asReal(numberBytes(messagePrecision(run.config), run.device.real_bytes))),
        _sharing(terms.cluster.sharing(run.grid.groups, run.grid.size())), _sums(terms, run) {
    for (int stage = 0; stage < run.grid.stages; ++stage) {
      std::vector<std::int64_t> samples{_rows};
      if (_smaller > 0) samples.push_back(_rows - 1);
      StageCost cost = stageCost(terms, run, stage, samples);
      _stages.push_back(std::move(cost.times.front()));
      if (_smaller > 0) _smaller_stages.push_back(std::move(cost.times.back()));
      _memory.push_back(cost.memory);
    }
  }

  void fill() {
    _prediction.memory = memory();
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
  /// Bytes of the rank that needs most. That of stages that copy parameters is not known yet.
  double memory() {
    for (int stage = 0; stage < _run.grid.stages; ++stage)
      if (!_run.partition.stages[stage].copies.empty())
        _memory[stage] = stageMemory(_run.config, _run.partition, _run.grid, stage, _run.device);
    return _run.memory(_memory);
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

  /// Changes what would take `before` seconds to `now` seconds.
  static ComputeTime scaled(const ComputeTime& time, double now, double before) {
    const double factor = before > 0.0 ? now / before : 0.0;
    return {factor * time.forward, factor * time.backward, factor * time.update};
  }

  /// Seconds of a step in one pass.
  static double computeOf(const StageTime& stage) { return stage.compute() + stage.update; }

  /// The link from a rank's last stage to the next rank.
  const Link& linkAfter(int group) const {
    const GridPlan& grid = _run.grid;
    return _terms.cluster.linkAfter(group, grid.groups, std::int64_t{grid.replicas} * grid.parts);
  }

  /// Bytes of the outputs that a rank's last stage sends to the next rank, or of the gradients that it gets.
  double bytesAfter(int group, std::int64_t rows) const {
    return asReal(rows) * _message_bytes * _stages[_run.grid.first_stage[group + 1] - 1].outputs;
  }

  /// The stages of a rank, one after another, and the sums of their gradients.
  RankTime rankTime(int group) const {
    RankTime time;
    for (int i = _run.grid.first_stage[group]; i < _run.grid.first_stage[group + 1]; ++i) {
      time.add(_stages[i], asReal(_passes - _smaller));
      if (_smaller > 0) time.add(_smaller_stages[i], asReal(_smaller));
      time.compute.update += _stages[i].update;
      time.sums += _sums.gradients(_stages[i].layers, bucketRule(_run.config));
      time.norms += _sums.norms(_stages[i], asReal(_passes));
    }
    return time;
  }

  /// All ranks train at once, so the slowest rank or the slowest link decides. Activations travel while the
  /// next batch is computed.
  void together(bool relays) {
    const GridPlan& grid = _run.grid;
    RankTime slowest;
    MostSent most_sent;
    std::vector<double> computing;
    Exchange stage{ExchangeKind::stage};
    for (int group = 0; group < grid.groups; ++group) {
      const RankTime time = rankTime(group);
      computing.push_back(time.compute.total());
      most_sent.see(time);
      if (time.total() > slowest.total()) slowest = time;
      if (!relays || group + 1 == grid.groups) continue;
      const double bytes = bytesAfter(group, _share);
      stage.messages = 1.0;
      stage.bytes = std::max(stage.bytes, bytes);
      stage.hidden = std::max(stage.hidden, linkAfter(group).seconds(bytes));
    }
    const double longest = slowest.compute.total(), compute = std::min(longest, shared(computing)),
                 step = slowest.total() - longest + compute;
    const double exposed = std::max(0.0, stage.hidden - _terms.cluster.overlap * step);
    stage.seconds = std::min(stage.hidden, exposed);
    stage.hidden -= stage.seconds;
    most_sent.replaceIn(slowest.sums, slowest.norms, slowest.of_parts);
    _prediction.setCompute(scaled(slowest.compute, compute, longest));
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
    double compute = 0.0;
    ComputeTime busiest;
    for (int group = 0; group < grid.groups; ++group) {
      const RankTime rank = rankTime(group);
      ComputeTime own_rank = rank.compute;
      double idle = 0.0;
      _prediction.add(rank.sums);
      _prediction.add(rank.norms);
      for (const Exchange& exchange : rank.of_parts) _prediction.add(exchange);
      for (int i = grid.first_stage[group]; i < grid.first_stage[group + 1]; ++i) {
        if (i == 0) continue;
        const StageTime& before = _stages[i - 1];
        const double passes = asReal(grid.replicas);
        const bool same_rank = i > grid.first_stage[group];
        if (same_rank) {
          own_rank.forward += passes * before.forward() / epochs;
          idle += passes * before.exchange_forward / epochs;
          continue;
        }
        const double forward = passes * (before.forward() + before.exchange_forward),
                     own = computeOf(_stages[i]) + _stages[i].exchangeSeconds();
        idle += std::max(0.0, forward - own) / epochs;
        const double bytes = _prediction.batch * _message_bytes * _stages[i - 1].outputs;
        const double seconds = linkAfter(group - 1).seconds(bytes);
        const double exposed = std::max(0.0, seconds - _terms.cluster.overlap * std::max(own, forward));
        _prediction.add({ExchangeKind::stage, 1.0 / epochs, bytes / epochs, exposed / epochs,
                         (seconds - exposed) / epochs});
      }
      compute += own_rank.total() + idle;
      if (own_rank.total() > busiest.total()) busiest = own_rank;
    }
    const double alone = shared({1.0}); // one stage trains at a time
    _prediction.setCompute(scaled(busiest, alone, 1.0), alone * (compute - busiest.total()));
  }

  /// Replicas of the whole network that sum their changes every few steps.
  void meetings() {
    const StageTime& whole = _stages.front();
    ComputeTime compute = rankTime(0).compute;
    const Meetings meetings = _plan.meetings(_run.config.strategy);
    const double per_step = meetings.perStep(_prediction.run_steps);
    const double meeting_seconds = // per value
        meetings.copied_values * asReal(_run.device.real_bytes) * _terms.cluster.seconds_per_copied_byte;
    BucketRule rule = bucketRule(_run.config);
    rule.late = false;
    std::vector<GradientLayer> idle = whole.layers; // nothing is computed meanwhile
    double values = 0.0;
    for (GradientLayer& layer : idle) {
      layer.forward = layer.backward = 0.0;
      values += layer.bytes / sumBytes(_run);
    }
    Exchange sums = per_step * _sums.gradients(idle, rule);
    sums.kind = ExchangeKind::parameters;
    compute.update += per_step * values * meeting_seconds;
    _prediction.setCompute(compute);
    _prediction.add(sums);
    _prediction.add(per_step * _sums.norms(whole, 0.0)); // running statistics
  }

  std::vector<PipelineStage> passesOf(const std::vector<StageTime>& stages, bool with_parts) const;
  double pipelineStep(bool with_parts, bool with_messages) const;
  void pipeline();

  const CostTerms& _terms;
  const ProgramRun& _run;
  const StrategyPlan& _plan;
  Prediction& _prediction;
  std::int64_t _share, _rows;     ///< samples of a replica: per step, and the most per pass
  std::int64_t _passes, _smaller; ///< per step, and those of one sample less
  double _message_bytes;          ///< of a value in a message between stages
  CoreSharing _sharing;           ///< by groups of ranks
  StepSums _sums;
  std::vector<StageMemory> _memory;                ///< of stages
  std::vector<StageTime> _stages, _smaller_stages; ///< in passes of the most samples, and of one less
};

/// A pass of each rank, with or without the messages of its parts.
std::vector<PipelineStage> ProgramModel::passesOf(const std::vector<StageTime>& stages,
                                                  bool with_parts) const {
  const GridPlan& grid = _run.grid;
  std::vector<PipelineStage> passes(grid.groups);
  for (int i = 0; i < static_cast<int>(stages.size()); ++i) {
    PipelineStage& pass = passes[grid.groupOf(i)];
    pass.forward += stages[i].forward() + (with_parts ? stages[i].exchange_forward : 0.0);
    pass.backward += stages[i].backward() + (with_parts ? stages[i].exchange_backward : 0.0);
  }
  return passes;
}

/// Seconds of the passes of a step, by simulation. Messages between ranks all take their mean time.
double ProgramModel::pipelineStep(bool with_parts, bool with_messages) const {
  std::vector<PipelineStage> passes = passesOf(_stages, with_parts);
  const std::vector<PipelineStage> smaller = passesOf(_smaller_stages, with_parts);
  for (int group = 0; with_messages && group + 1 < _run.grid.groups; ++group) {
    const Link& link = linkAfter(group);
    PipelineStage& pass = passes[group];
    pass.message = (asReal(_passes - _smaller) * link.seconds(bytesAfter(group, _rows)) +
                    asReal(_smaller) * link.seconds(bytesAfter(group, _rows - 1))) /
                   asReal(_passes);
    pass.copying = (1.0 - _terms.cluster.overlap) * pass.message;
  }
  const auto factor = [&](std::size_t rank, PassKind kind, std::int64_t number) {
    if (shareOf(_share, number, _passes).size() == _rows) return 1.0;
    const auto seconds = kind == PassKind::forward ? &PipelineStage::forward : &PipelineStage::backward;
    const double most = passes[rank].*seconds;
    return most > 0.0 ? smaller[rank].*seconds / most : 1.0;
  };
  return pipelineSeconds(passes, _passes, _run.config.strategy, _sharing, factor);
}

/// Gradients are final in the backward pass of the last microbatch, and parameters are needed in the forward
/// pass of the first one.
void ProgramModel::pipeline() {
  const GridPlan& grid = _run.grid;
  // The time of each kind of exchange is that of the rank for which it takes longest.
  MostSent most_sent;
  Exchange sums{ExchangeKind::gradients}, norms{ExchangeKind::norm};
  std::vector<Exchange> of_parts;
  ComputeTime busiest;
  double update = 0.0, parts = 0.0, sent = 0.0, before = 0.0;
  for (int group = 0; group < grid.groups; ++group) {
    const RankTime rank = rankTime(group);
    most_sent.see(rank);
    if (rank.sums.seconds + rank.sums.hidden > sums.seconds + sums.hidden) sums = rank.sums;
    if (rank.norms.seconds > norms.seconds) norms = rank.norms;
    if (of_parts.empty() || rank.parts() > parts) {
      of_parts = rank.of_parts;
      parts = rank.parts();
    }
    update = std::max(update, rank.compute.update);
    if (rank.compute.passes() > busiest.passes()) busiest = rank.compute;
    const double after = group + 1 == grid.groups ? 0.0 : bytesAfter(group, _share);
    sent = std::max(sent, before + after);
    before = after;
  }
  const double alone = pipelineStep(false, false),
               with_parts = grid.parts > 1 ? pipelineStep(true, false) : alone,
               idle = grid.groups > 1 ? std::max(0.0, alone - busiest.passes()) : 0.0;
  most_sent.replaceIn(sums, norms, of_parts);
  busiest = scaled(busiest, alone - idle, busiest.passes());
  busiest.update = update; // of the rank that needs longest
  _prediction.microbatches = _passes;
  _prediction.setCompute(busiest, idle);
  _prediction.add(sums);
  _prediction.add(norms);
  // Exchanges of parts take as long as they prolong the simulation, whichever rank they are on.
  for (Exchange& exchange : of_parts) {
    exchange.seconds *= parts > 0.0 ? (with_parts - alone) / parts : 0.0;
    _prediction.add(exchange);
  }
  if (grid.groups > 1)
    _prediction.add({ExchangeKind::stage, asReal(_passes) * (grid.groups > 2 ? 2.0 : 1.0), sent,
                     pipelineStep(true, true) - with_parts});
}

} // namespace

void predictRun(const CostTerms& terms, const ProgramRun& run, Prediction& prediction) {
  ProgramModel(terms, run, prediction).fill();
}

} // namespace partita
