#include "partita/plan/search/deck_placement.hpp"

#include "partita/plan/balanced_cuts.hpp"
#include "partita/plan/cost/pipeline_events.hpp"
#include "partita/plan/placement/device_placement.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

StrategySection DeckPlacement::strategy(StrategySection section) const {
  section.kind = ranks() > 1 ? StrategyKind::pipeline : StrategyKind::joint;
  section.stages = stages();
  section.cut_rule = cuts.empty() ? CutRule::flops : CutRule::list;
  section.cuts = cuts;
  section.replicas = replicas;
  section.parts = 1;
  section.pipeline.microbatches = microbatches;
  return section;
}

DeckPlacer::DeckPlacer(const CostModel& model, const Cluster& cluster, std::int64_t microbatches)
    : _model(model), _cluster(cluster), _microbatches(microbatches) {
  const std::vector<LayerCost>& rows = model.task().layers;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].index >= static_cast<std::int64_t>(_layers.size())) _layers.emplace_back();
    Layer& layer = _layers.back();
    const LayerTime& time = model.times()[i];
    layer.forward += time.forward;
    layer.backward += time.backward;
    layer.update += time.update;
    layer.parameters += rows[i].parameters();
    layer.outputs = rows[i].outputs;
    layer.activations += rows[i].outputs;
  }
}

double DeckPlacer::rowsOf(const DeckPlacement& plan) const {
  const double share = std::ceil(_model.task().batch / asReal(plan.replicas));
  return std::ceil(share / asReal(plan.microbatches));
}

double DeckPlacer::messageSeconds(double rows, const Layer& before) const {
  return _cluster.layerLinks().of(2).seconds(pointToPoint(rows * before.outputs * bytes_per_item));
}

/// The layers as a chain for PHAZE's placement. Edges are given in seconds, so that they contain the latency:
/// the bandwidth is 1.
std::optional<DeckPlacement> DeckPlacer::place(std::int64_t most_stages, std::int64_t replicas,
                                               std::int64_t microbatches) const {
  DeckPlacement plan;
  plan.replicas = replicas;
  plan.microbatches = microbatches;
  const double rows = rowsOf(plan);
  PlacementTask task;
  task.devices = most_stages;
  task.microbatches = microbatches;
  task.most_replicas = 1;
  LayerGraph graph;
  for (std::size_t i = 0; i < _layers.size(); ++i) {
    const Layer& layer = _layers[i];
    graph.layers.push_back({static_cast<std::int64_t>(i), bytes_per_item * layer.parameters,
                            bytes_per_item * rows * layer.activations, rows * layer.forward,
                            rows * layer.backward, false});
    if (i > 0)
      graph.edges.push_back(
          {static_cast<int>(i) - 1, static_cast<int>(i), messageSeconds(rows, _layers[i - 1])});
  }
  task.graphs.push_back(std::move(graph));
  constexpr double unlimited = 1e18;
  constexpr int most_attempts = 20;
  task.memory = _cluster.memory > 0.0 ? _cluster.memory : unlimited;
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    const DevicePlan found = placeLayers(task);
    if (!found.feasible) break;
    plan.cuts.clear();
    for (std::size_t stage = 1; stage < found.stages.size(); ++stage)
      plan.cuts.push_back(found.stages[stage].layers.front());
    if (fits(plan)) return plan;
    task.memory *= std::min(0.9, _cluster.memory / memoryOf(plan));
  }
  return std::nullopt;
}

DeckPlacement DeckPlacer::balance(std::int64_t stages, std::int64_t replicas,
                                  std::int64_t microbatches) const {
  DeckPlacement plan;
  plan.replicas = replicas;
  plan.microbatches = microbatches;
  std::vector<double> before{0.0};
  for (const Layer& layer : _layers) before.push_back(before.back() + layer.forward + layer.backward);
  plan.cuts =
      balancedCuts(static_cast<std::int64_t>(_layers.size()), static_cast<int>(stages),
                   [&](std::int64_t first, std::int64_t last, int) { return before[last] - before[first]; });
  return plan;
}

void DeckPlacer::moveCuts(DeckPlacement& plan) const {
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t cut = 0; cut < plan.cuts.size(); ++cut) {
      for (const std::int64_t step : {-1, 1}) {
        DeckPlacement other = plan;
        const std::int64_t place = other.cuts[cut] += step;
        const std::int64_t before = cut > 0 ? plan.cuts[cut - 1] : 0,
                           after = cut + 1 < plan.cuts.size() ? plan.cuts[cut + 1]
                                                              : static_cast<std::int64_t>(_layers.size());
        if (place <= before || place >= after) continue;
        other.step = stepOf(other);
        if (other.step >= plan.step || !fits(other)) continue;
        plan = other;
        moved = true;
      }
    }
  }
}

void DeckPlacer::price(DeckPlacement& plan) const {
  plan.step = stepOf(plan);
  plan.memory = memoryOf(plan);
}

double DeckPlacer::memoryOf(const DeckPlacement& plan) const {
  const Program& program = *_model.task().program;
  return program.run(plan.strategy(program.deck().strategy), plan.ranks()).memory();
}

double DeckPlacer::stepOf(const DeckPlacement& plan) const {
  const double rows = rowsOf(plan);
  std::vector<std::int64_t> first{0};
  first.insert(first.end(), plan.cuts.begin(), plan.cuts.end());
  std::vector<PipelineStage> stages(first.size());
  double slowest_end = 0.0; // of sums and updates after the pipeline
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::size_t end = s + 1 < first.size() ? static_cast<std::size_t>(first[s + 1]) : _layers.size();
    double update = 0.0, parameters = 0.0;
    for (std::size_t i = static_cast<std::size_t>(first[s]); i < end; ++i) {
      stages[s].forward += rows * _layers[i].forward;
      stages[s].backward += rows * _layers[i].backward;
      update += _layers[i].update;
      parameters += _layers[i].parameters;
    }
    if (end < _layers.size()) stages[s].message = messageSeconds(rows, _layers[end - 1]);
    const Messages sum = ringAllReduce(plan.replicas, parameters * bytes_per_item);
    const double reduced = plan.replicas > 1 ? sum.count / 2.0 * sum.bytes : 0.0;
    slowest_end = std::max(slowest_end, update + _cluster.links.of(plan.ranks()).seconds(sum) +
                                            reduced * _cluster.seconds_per_reduced_byte);
  }
  return pipelineSeconds(stages, plan.microbatches, plan.strategy(_model.task().program->deck().strategy)) +
         slowest_end;
}

std::optional<DeckPlacement> DeckPlacer::fastest(std::int64_t ranks) const {
  constexpr double clearly = 0.999; // otherwise the plan with fewer replicas, micro-batches and stages
  const std::vector<std::int64_t> counts =
      _microbatches > 0 ? std::vector<std::int64_t>{_microbatches} : std::vector<std::int64_t>{1, 2, 4, 8};
  std::optional<DeckPlacement> best;
  constexpr double hopeless = 1.1; // moving cuts hardly gains so much
  const auto consider = [&](std::optional<DeckPlacement> plan) {
    if (plan) plan->step = stepOf(*plan);
    if (!plan || (best && plan->step > hopeless * best->step) || !fits(*plan)) return;
    moveCuts(*plan);
    if (!best || plan->step < clearly * best->step) best = std::move(plan);
  };
  for (std::int64_t replicas = 1; replicas <= ranks; ++replicas) {
    const double share = _model.task().batch / asReal(replicas);
    if (share != std::floor(share)) continue;
    const std::int64_t most = std::min(ranks / replicas, static_cast<std::int64_t>(_layers.size()));
    for (const std::int64_t microbatches : counts) {
      if (asReal(microbatches) > share) break;
      consider(place(most, replicas, microbatches));
      for (std::int64_t stages = 1; stages <= most; ++stages)
        consider(balance(stages, replicas, microbatches));
    }
  }
  if (best) price(*best);
  return best;
}

} // namespace partita
