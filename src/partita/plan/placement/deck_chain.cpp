#include "partita/plan/placement/deck_chain.hpp"

#include "partita/plan/cost/pipeline_events.hpp"
#include "partita/plan/cost/step_sums.hpp"
#include "partita/plan/stage_memory.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace partita {

namespace {

/// Fewer ranks at a time may compute faster.
double paceOf(const CoreSharing& sharing) {
  double pace = 1.0;
  for (std::size_t i = 1; i < sharing.slowdowns.size(); ++i) pace = std::min(pace, sharing.slowdowns[i]);
  return pace;
}

/// At least so long does a step of the pipeline take: each rank waits for its first input, computes all
/// passes, and its last gradient goes back to the first rank.
double leastSeconds(const std::vector<PipelineStage>& stages, double microbatches,
                    const CoreSharing& sharing) {
  double least = 0.0, path = 0.0, copying = 0.0;
  for (const PipelineStage& stage : stages) {
    const double passes = stage.forward + stage.backward;
    least = std::max(least, path - copying + microbatches * (passes + copying + stage.copying));
    path += passes + 2.0 * stage.message;
    copying = stage.copying;
  }
  return paceOf(sharing) * least;
}

} // namespace

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

DeckChain::DeckChain(const CostModel& model, const Cluster& cluster, const std::vector<bool>& possible)
    : _model(model), _cluster(cluster), _buckets(bucketRule(model.task().program->deck())) {
  const Program& program = *model.task().program;
  const RunConfig& deck = program.deck();
  const auto bytes = [&](Precision precision) {
    return asReal(numberBytes(precision, program.device().real_bytes));
  };
  _bytes = {bytes(Precision::single), bytes(activationPrecision(deck)), bytes(messagePrecision(deck)),
            bytes(sumPrecision(deck.strategy))};
  const std::vector<LayerCost>& rows = model.task().layers;
  Held held;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool begins = i == 0 || rows[i].index != rows[i - 1].index;
    if (i == 0 || (begins && possible[rows[i].index])) {
      _before.push_back(held);
      _pieces.emplace_back();
      _pieces.back().first = rows[i].index;
      _pieces.back().begin = i;
    }
    Piece& piece = _pieces.back();
    piece.end = i + 1;
    piece.outputs = rows[i].outputs;
    piece.activations += rows[i].outputs;
    piece.parameters += rows[i].parameters();
    held.parameters += rows[i].parameters();
    held.update += model.times()[i].update;
  }
  _before.push_back(held);
}

std::size_t DeckChain::pieceAt(std::int64_t cut) const {
  const auto found =
      std::lower_bound(_pieces.begin(), _pieces.end(), cut,
                       [](const Piece& piece, std::int64_t place) { return piece.first < place; });
  return static_cast<std::size_t>(found - _pieces.begin());
}

double DeckChain::rowsOf(const DeckPlacement& plan) const {
  const double share = std::ceil(_model.task().batch / asReal(plan.replicas));
  return std::ceil(share / asReal(plan.microbatches));
}

const std::vector<PassTime>& DeckChain::passesBefore(double rows) const {
  const auto [found, added] = _passes.try_emplace(rows);
  if (!added) return found->second;
  PassTime sum;
  found->second.push_back(sum);
  for (const Piece& piece : _pieces) {
    for (std::size_t i = piece.begin; i < piece.end; ++i) {
      const PassTime pass = _model.passOf(i, rows);
      sum.forward += pass.forward;
      sum.backward += pass.backward + _model.task().layers[i].again * pass.forward;
    }
    found->second.push_back(sum);
  }
  return found->second;
}

std::vector<double> DeckChain::secondsBefore(const DeckPlacement& plan) const {
  std::vector<double> before;
  for (const PassTime& pass : passesBefore(rowsOf(plan))) before.push_back(pass.forward + pass.backward);
  return before;
}

double DeckChain::messageSeconds(double rows, const Piece& from, const Link& link) const {
  return link.seconds(pointToPoint(rows * from.outputs * _bytes.message));
}

double DeckChain::sumSeconds(const DeckPlacement& plan, const RingPath& path, std::size_t first,
                             std::size_t end) const {
  if (plan.replicas == 1) return 0.0;
  const std::vector<PassTime>& passes = passesBefore(rowsOf(plan));
  std::vector<GradientLayer> layers;
  for (std::size_t i = first; i < end; ++i)
    layers.push_back({passes[i + 1].forward - passes[i].forward, passes[i + 1].backward - passes[i].backward,
                      _bytes.sum * _pieces[i].parameters});
  return gradientSums(_cluster, path, static_cast<int>(plan.replicas), layers, _buckets).seconds;
}

/// `leastSeconds` of stages without messages is smallest if it is the same for each stage. With m
/// microbatches, each stage then computes the fraction 1 - 1/m of the one before it.
double DeckChain::leastStep(const DeckPlacement& whole, std::int64_t stages) const {
  const PassTime& all = passesBefore(rowsOf(whole)).back();
  const double others = std::pow(1.0 - 1.0 / asReal(whole.microbatches), asReal(stages));
  return paceOf(_cluster.sharing(stages, stages * whole.replicas)) * (all.forward + all.backward) /
         (1.0 - others);
}

double DeckChain::stepOf(const DeckPlacement& plan, double limit) const {
  const double rows = rowsOf(plan);
  const std::vector<PassTime>& passes = passesBefore(rows);
  std::vector<PipelineStage> stages(plan.stages());
  const RingPath path = ringPath(_cluster, plan.ranks(), plan.replicas, plan.stages());
  double slowest_end = 0.0; // end of sums and updates after the pipeline
  std::size_t first = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::size_t end = s < plan.cuts.size() ? pieceAt(plan.cuts[s]) : _pieces.size();
    stages[s].forward = passes[end].forward - passes[first].forward;
    stages[s].backward = passes[end].backward - passes[first].backward;
    if (end < _pieces.size()) {
      const Link& link = _cluster.linkAfter(static_cast<std::int64_t>(s), plan.stages(), plan.replicas);
      stages[s].message = messageSeconds(rows, _pieces[end - 1], link);
      stages[s].copying = (1.0 - _cluster.overlap) * stages[s].message;
    }
    slowest_end = std::max(slowest_end,
                           _before[end].update - _before[first].update + sumSeconds(plan, path, first, end));
    first = end;
  }
  const CoreSharing sharing = _cluster.sharing(plan.stages(), plan.ranks());
  const double least = leastSeconds(stages, asReal(plan.microbatches), sharing) + slowest_end;
  if (least >= limit) return least;
  const StrategySection strategy = plan.strategy(_model.task().program->deck().strategy);
  return pipelineSeconds(stages, plan.microbatches, strategy, sharing) + slowest_end;
}

/// The pieces follow one another. The bandwidth is 1, and edges have the seconds of a message between nodes,
/// which include the latency. Inside a node they are faster by the factor of the largest message.
PlacementTask DeckChain::task(const DeckPlacement& plan, std::int64_t most_stages) const {
  const double rows = rowsOf(plan);
  const std::vector<PassTime>& passes = passesBefore(rows);
  const std::int64_t node = std::min(_cluster.node_ranks, most_stages), ranks = most_stages * plan.replicas;
  const bool several = most_stages > node;
  const Link &inside = _cluster.links.of(std::min(_cluster.node_ranks, ranks)),
             &link = several ? _cluster.links.of(ranks) : inside;
  PlacementTask task;
  task.devices = most_stages;
  task.microbatches = plan.microbatches;
  task.most_replicas = 1;
  LayerGraph graph;
  double largest = 0.0; // s
  for (std::size_t i = 0; i < _pieces.size(); ++i) {
    const Piece& piece = _pieces[i];
    graph.layers.push_back({static_cast<std::int64_t>(i), _bytes.parameter * piece.parameters,
                            _bytes.activation * rows * piece.activations,
                            passes[i + 1].forward - passes[i].forward,
                            passes[i + 1].backward - passes[i].backward, false});
    if (i == 0) continue;
    const double seconds = messageSeconds(rows, _pieces[i - 1], link),
                 near = messageSeconds(rows, _pieces[i - 1], inside);
    graph.edges.push_back({static_cast<int>(i) - 1, static_cast<int>(i), seconds});
    if (several && near > 0.0 && seconds > std::max(near, largest)) {
      largest = seconds;
      task.node_devices = node;
      task.devices = most_stages / node * node;
      task.node_bandwidth = seconds / near;
    }
  }
  task.graphs.push_back(std::move(graph));
  constexpr double unlimited = 1e18;
  task.memory = _cluster.memory > 0.0 ? _cluster.memory : unlimited;
  return task;
}

} // namespace partita
