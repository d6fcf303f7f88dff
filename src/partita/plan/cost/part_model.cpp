#include "partita/plan/cost/cost_terms.hpp"
#include "partita/plan/cost/gradient_buckets.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/parts/part_traffic.hpp"
#include "partita/plan/run_length.hpp"

#include <array>
#include <cmath>
#include <map>

namespace partita {

namespace {

ExchangeKind kindOf(PartExchangeKind kind) {
  switch (kind) {
  case PartExchangeKind::gather:
    return ExchangeKind::all_gather;
  case PartExchangeKind::reduce:
    return ExchangeKind::reduce_scatter;
  case PartExchangeKind::halo:
    return ExchangeKind::halo;
  case PartExchangeKind::norm:
    return ExchangeKind::batch_norm;
  case PartExchangeKind::sum:
    break;
  }
  return ExchangeKind::all_reduce;
}

/// The part of the bytes that are added to own values where they arrive.
double addedShare(PartExchangeKind kind) {
  return kind == PartExchangeKind::reduce ? 1.0 : kind == PartExchangeKind::sum ? 0.5 : 0.0;
}

/// Ranks that share the layers of the whole network, and replicas of them, as this program divides layers:
/// each part has the FLOPs and the messages of its own plan.
class PartModel {
 public:
  PartModel(const CostTerms& terms, const ProgramRun& run, Prediction& prediction)
      : _terms(terms), _run(run), _prediction(prediction), _parts(run.grid.parts),
        _share(std::llround(std::ceil(prediction.batch / asReal(run.grid.replicas)))),
        _segments(microbatchesOf(run.config.strategy, _share)),
        _rows(std::llround(std::ceil(asReal(_share) / asReal(_segments)))),
        _path(ringPath(terms.cluster, run.grid.size(), _parts, run.grid.replicas)) {
    for (std::size_t i = 0; i < terms.task.layers.size(); ++i) _row_of[terms.task.layers[i].name] = i;
  }

  void fill() {
    _prediction.memory = _run.memory();
    double most = -1.0;
    for (const int part : {0, _parts / 2}) { // the first one has the largest ranges, inner ones two borders
      const StagePlan own = partOfStage(_run.partition.stages.front(), _run.config.strategy, part);
      Step step = stepOf(own, part);
      if (step.total() <= most) continue;
      most = step.total();
      _prediction.epoch_compute = _prediction.steps * step.compute;
      _prediction.exchanges.clear();
      for (const Exchange& exchange : step.exchanges) _prediction.add(exchange);
    }
  }

 private:
  struct Step {
    double compute = 0.0; ///< seconds
    std::vector<Exchange> exchanges;

    double total() const {
      double sum = compute;
      for (const Exchange& exchange : exchanges) sum += exchange.seconds;
      return sum;
    }
  };

  Step stepOf(const StagePlan& own, int part) const {
    Step step;
    std::vector<GradientLayer> layers;
    for (const LayerPlan* leaf : leavesOf(own.layers)) {
      const auto found = _row_of.find(leaf->name());
      if (found == _row_of.end()) continue; // an exchange, or an activation after one
      const LayerTime& time = _terms.times[found->second];
      const double whole = leaf->whole().forwardFlops(),
                   share = whole > 0.0 ? leaf->forwardFlops() / whole : 1.0,
                   parameters = asReal(leaf->parameters()), all = asReal(leaf->whole().parameters());
      const double rows = asReal(_rows);
      layers.push_back(
          {rows * share * time.forward, rows * share * time.backward, bytes_per_item * parameters});
      step.compute += asReal(_segments) * (layers.back().forward + layers.back().backward) +
                      (all > 0.0 ? parameters / all : 0.0) * time.update;
    }
    addMessages(own, part, step);
    addGradients(layers, step);
    return step;
  }

  /// Each message takes its time, one after another.
  void addMessages(const StagePlan& own, int part, Step& step) const {
    constexpr std::size_t kinds = 5;
    std::array<Exchange, kinds> sums;
    for (const PartMessage& message :
         partMessages(own, part, _rows, static_cast<std::int64_t>(bytes_per_item), false)) {
      Exchange& sum = sums[static_cast<std::size_t>(message.kind)];
      const double bytes = asReal(message.bytes), times = asReal(_segments);
      sum.kind = kindOf(message.kind);
      sum.messages += times;
      sum.bytes += times * bytes;
      sum.seconds += times * (_path.link.seconds({1.0, bytes}, _path.flows) +
                              addedShare(message.kind) * bytes * _terms.cluster.seconds_per_reduced_byte);
    }
    for (const Exchange& sum : sums)
      if (sum.messages > 0.0) step.exchanges.push_back(sum);
  }

  /// Over replicas; if places are divided, over parts as well.
  void addGradients(const std::vector<GradientLayer>& layers, Step& step) const {
    const bool by_places = _run.config.strategy.split == Split::spatial;
    const int ranks = by_places ? _run.grid.replicas * _parts : _run.grid.replicas;
    if (ranks == 1) return;
    const RingPath path = ringPath(_terms.cluster, _run.grid.size(), ranks, 1);
    step.exchanges.push_back(
        gradientExchange(layers, bucketRule(_run.config), ranks, _terms.cluster.overlap, [&](double bytes) {
          return path.link.seconds(ringAllReduce(ranks, bytes), path.flows) +
                 bytes * asReal(ranks - 1) / asReal(ranks) * _terms.cluster.seconds_per_reduced_byte;
        }));
  }

  const CostTerms& _terms;
  const ProgramRun& _run;
  Prediction& _prediction;
  int _parts;
  std::int64_t _share, _segments, _rows; ///< samples of a replica; microbatches, and samples of one
  RingPath _path;
  std::map<std::string, std::size_t> _row_of;
};

} // namespace

void predictParts(const CostTerms& terms, const ProgramRun& run, Prediction& prediction) {
  PartModel(terms, run, prediction).fill();
}

} // namespace partita
