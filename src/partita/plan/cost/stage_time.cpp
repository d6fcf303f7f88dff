#include "partita/plan/cost/stage_time.hpp"

#include "partita/plan/cost/backward_passes.hpp"
#include "partita/plan/cost/offload_time.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/parts/part_traffic.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace partita {

namespace {

ExchangeKind kindOfPart(PartExchangeKind kind) {
  switch (kind) {
  case PartExchangeKind::gather:
    return ExchangeKind::all_gather;
  case PartExchangeKind::reduce:
    return ExchangeKind::reduce_scatter;
  case PartExchangeKind::halo:
    return ExchangeKind::halo;
  case PartExchangeKind::norm:
    return ExchangeKind::norm;
  case PartExchangeKind::sum:
    break;
  }
  return ExchangeKind::all_reduce;
}

/// The fraction of the bytes that are added to own values on arrival.
double addedShare(PartExchangeKind kind) {
  return kind == PartExchangeKind::reduce ? 1.0 : kind == PartExchangeKind::sum ? 0.5 : 0.0;
}

/// The matrix [rows * items, values] that an exchange gathers, adds up or slices, and this part's share.
struct ExchangedValues {
  double all = 0.0, own = 0.0;
};

ExchangedValues valuesOf(const ExchangePlan& plan) {
  const auto items = static_cast<double>(plan.items);
  const std::int64_t all = std::accumulate(plan.widths.begin(), plan.widths.end(), std::int64_t{0});
  const auto own = static_cast<std::size_t>(plan.place);
  return {items * asReal(all), own < plan.widths.size() ? items * asReal(plan.widths[own]) : 0.0};
}

/// FLOPs of products in training.
double productFlops(const std::vector<LayerPlan>& layers) {
  double flops = 0.0;
  for (const LayerPlan* layer : leavesOf(layers))
    flops += layer->forwardFlops() + layer->weightFlops() + layer->inputFlops();
  return flops;
}

class StageClock {
 public:
  StageClock(const CostTerms& terms, const ProgramRun& run, int stage, std::int64_t samples)
      : _terms(terms), _run(run), _whole(run.partition.stages[stage]), _samples(samples),
        _input_gradient(planOf(run.config.strategy).gradientsCross() && !_whole.first()),
        _slowdown(terms.cluster.slowdown(asReal(run.grid.size()))) {}

  /// `own`: the plan of this part.
  StageTime timeOf(const StagePlan& own, int part) const {
    StageTime time;
    time.outputs = asReal(own.outputs());
    addLayers(own, time);
    if (!planOf(_run.config.strategy).gradientsCross()) addHead(own, time);
    time.update = _slowdown * updateSeconds(_terms.cluster, _run.config, asReal(own.storedValues()),
                                            time.update / _slowdown, _run.device.real_bytes);
    if (_run.grid.parts > 1) {
      addMessages(own, part, time);
      const CopiedBytes copied = copiedBytes(own, _samples, _run.device.real_bytes, _input_gradient);
      time.copies_forward = copied.forward * _terms.cluster.seconds_per_copied_byte;
      time.copies_backward = copied.backward * _terms.cluster.seconds_per_copied_byte;
    }
    return time;
  }

 private:
  void addLayers(const StagePlan& own, StageTime& time) const {
    const std::vector<BackwardPass> backward_of = backwardPasses(own.layers, _input_gradient);
    std::size_t leaf = 0;
    for (const LayerPlan* layer : leavesOf(own.layers)) {
      const auto [again, input_gradient] = backward_of[leaf++];
      if (layer->exchange) continue;
      const PassTime pass = _terms.kernels.of(kernelShape(*layer), asReal(_samples), input_gradient);
      const double parameters = asReal(layer->parameters()),
                   backward = pass.backward + asReal(again) * pass.forward;
      time.layers.push_back(
          {_slowdown * pass.forward, _slowdown * backward, sumBytes(_run) * asReal(layer->storedValues())});
      time.update += _slowdown * parameters * _terms.cluster.seconds_per_update;
      if (_run.grid.replicas > 1) addStatistics(*layer, again, input_gradient, time);
    }
  }

  /// A norm over replicas adds up values and their number, then squares; in the backward pass the gradients
  /// of both.
  static void addStatistics(const LayerPlan& layer, std::int64_t again, bool input_gradient,
                            StageTime& time) {
    time.statistics += asReal(layer.statistics());
    if (!layer.rules().acrossReplicas(layer)) return;
    const double channels = asReal(layer.in[0]);
    for (std::int64_t pass = 0; pass <= again; ++pass) {
      time.statistic_sums.push_back(channels + 1.0);
      time.statistic_sums.push_back(channels);
    }
    if (input_gradient) time.statistic_sums.push_back(2.0 * channels + 1.0);
  }

  /// FLOPs of the head, the labels and the decoder take as long as others in the network.
  void addHead(const StagePlan& own, StageTime& time) const {
    const double parameters = asReal(countParameters(own.decoder) + countParameters(own.head));
    const double flops = _run.partition.local[_whole.index].flops -
                         _whole.trainEffort(_input_gradient).flops - productFlops(_whole.head) +
                         productFlops(own.head);
    const double seconds = _slowdown * asReal(_samples) * flops * secondsPerFlop(_terms);
    const double bytes = sumBytes(_run) * asReal(own.storedValues()) - time.gradientBytes();
    time.layers.push_back({seconds / 3.0, 2.0 * seconds / 3.0, bytes});
    time.update += _slowdown * parameters * _terms.cluster.seconds_per_update;
  }

  /// Messages follow one another. Those that travel while a layer computes are hidden for as long as it does.
  void addMessages(const StagePlan& own, int part, StageTime& time) const {
    const GridPlan& grid = _run.grid;
    const RingPath path = ringPath(_terms.cluster, grid.size(), grid.parts, grid.groups);
    const std::int64_t value_bytes = _run.device.real_bytes;
    const LayerPlan* behind = nullptr;
    double left = 0.0;               // seconds that this layer still computes
    GradientLayer* hiding = nullptr; // its times
    for (const PartMessage& message : partMessages(own, part, _samples, value_bytes, _input_gradient)) {
      const double bytes = asReal(message.bytes), travel = path.link.seconds({1.0, bytes}, path.flows);
      if (std::exchange(behind, message.hidden_behind) != message.hidden_behind) {
        left = secondsMeanwhile(behind, message.backward);
        hiding = rowOf(behind, own, time);
      }
      const double meanwhile = std::min(left, travel), hidden = _terms.cluster.overlap * meanwhile;
      left -= meanwhile;
      if (hiding != nullptr)
        (message.forward_pass ? hiding->forward_hides : hiding->backward_hides) += meanwhile;
      const double seconds =
          travel - hidden + addedShare(message.kind) * bytes * _terms.cluster.seconds_per_reduced_byte;
      addExchange(time.exchanges, {kindOfPart(message.kind), 1.0, bytes, seconds, hidden});
      (message.forward_pass ? time.exchange_forward : time.exchange_backward) += seconds;
    }
  }

  /// What a layer of `own` takes; null if it is none of them.
  static GradientLayer* rowOf(const LayerPlan* wanted, const StagePlan& own, StageTime& time) {
    std::size_t place = 0;
    for (const LayerPlan* layer : leavesOf(own.layers)) {
      if (layer->exchange) continue;
      if (layer == wanted) return &time.layers[place];
      ++place;
    }
    return nullptr;
  }

  /// Seconds of a layer's backward pass without the gradient of its input, or of its interior in the forward
  /// pass.
  double secondsMeanwhile(const LayerPlan* layer, bool backward) const {
    if (layer == nullptr) return 0.0;
    const PassTime pass = _terms.kernels.of(kernelShape(*layer), asReal(_samples), false);
    if (backward) return _slowdown * pass.backward;
    return _slowdown * pass.forward * asReal(layer->part->interior.places()) /
           asReal(layer->part->block.places());
  }

  const CostTerms& _terms;
  const ProgramRun& _run;
  const StagePlan& _whole;
  std::int64_t _samples;
  bool _input_gradient; ///< does the stage before need it?
  double _slowdown;
};

} // namespace

/// Part 0, which is the first typical one, has the largest ranges; inner ones have more neighbours.
StageCost stageCost(const CostTerms& terms, const ProgramRun& run, int stage,
                    const std::vector<std::int64_t>& samples) {
  const StagePlan& whole = run.partition.stages[stage];
  const auto total = [](const StageTime& time) { return time.compute() + time.exchangeSeconds(); };
  StageCost cost;
  cost.times.resize(samples.size());
  std::vector<std::vector<Exchange>> most_sent(samples.size());
  for (const int part : typicalParts(whole, run.grid.parts)) {
    std::optional<StagePlan> divided;
    if (run.config.strategy.parts > 1) divided = partOfStage(whole, run.config.strategy, part);
    const StagePlan& own = divided ? *divided : whole;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      StageTime time = StageClock(terms, run, stage, samples[i]).timeOf(own, part);
      if (bytesOf(time.exchanges) > bytesOf(most_sent[i])) most_sent[i] = time.exchanges;
      if (part == 0 || total(time) > total(cost.times[i])) cost.times[i] = std::move(time);
    }
    if (!whole.copies.empty()) continue;
    const StageMemory memory = stageMemory(own, run.config, stagePlaceOf(run.grid, stage), run.device);
    if (memory.total() > cost.memory.total()) cost.memory = memory;
  }
  for (std::size_t i = 0; i < samples.size(); ++i) takeTraffic(cost.times[i].exchanges, most_sent[i]);
  return cost;
}

double sumBytes(const ProgramRun& run) {
  return asReal(numberBytes(sumPrecision(run.config.strategy), run.device.real_bytes));
}

CopiedBytes copiedBytes(const StagePlan& own, std::int64_t rows, std::int64_t real_bytes,
                        bool input_gradient) {
  CopiedBytes copied;
  const std::vector<BackwardPass> backward_of = backwardPasses(own.layers, input_gradient);
  std::size_t leaf = 0;
  for (const LayerPlan* layer : leavesOf(own.layers)) {
    const double again = asReal(backward_of[leaf++].again);
    if (!layer->exchange) continue;
    const ExchangePlan& plan = *layer->exchange;
    const ExchangedValues values = valuesOf(plan);
    const double bytes = asReal(rows) * asReal(real_bytes);
    // A gather copies all values into their columns. A slice copies this part's range, and so do sums, which
    // are added on arrival.
    const bool gathers = plan.kind == PartStep::gather_slice || plan.kind == PartStep::gather_reduce;
    double forward = gathers ? values.all : values.own, backward = gathers ? values.own : values.all;
    if (plan.kind == PartStep::halo) { // own places and halos
      forward = asReal(layer->outputs());
      backward = asReal(layer->inputs() + layer->outputs());
    }
    copied.forward += bytes * forward;
    copied.backward += bytes * (backward + again * forward);
  }
  return copied;
}

} // namespace partita
