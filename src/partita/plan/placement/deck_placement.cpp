#include "partita/plan/placement/deck_placement.hpp"

#include "partita/config/user_error.hpp"
#include "partita/plan/balanced_cuts.hpp"
#include "partita/plan/cost/pipeline_events.hpp"
#include "partita/plan/layer_rules.hpp"
#include "partita/plan/memory_between_cuts.hpp"
#include "partita/plan/placement/placement_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace partita {

namespace {

constexpr double clearly = 0.999; // otherwise fewer replicas, microbatches and stages win
constexpr std::int64_t most_layers = 4096;

bool begins(const std::vector<LayerCost>& rows, std::size_t i) {
  return i == 0 || rows[i].index != rows[i - 1].index;
}

/// The time of a search grows with the square of the number of layers.
void checkLayers(const std::vector<LayerCost>& rows) {
  std::int64_t layers = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) layers += begins(rows, i) ? 1 : 0;
  if (layers > most_layers)
    throw UserError("network/layers: a placement of " + std::to_string(layers) +
                    " layers would take too long to find; at most " + std::to_string(most_layers) +
                    " are possible, so put several into one block");
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

DeckPlacer::DeckPlacer(const CostModel& model, const Cluster& cluster, std::int64_t microbatches)
    : _model(model), _cluster(cluster), _microbatches(microbatches),
      _number_bytes(static_cast<double>(model.task().program->device().real_bytes)) {
  const std::vector<LayerCost>& rows = model.task().layers;
  checkLayers(rows);
  const std::vector<bool> possible = possibleCuts();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i == 0 || (begins(rows, i) && possible[rows[i].index])) {
      _layers.emplace_back();
      _layers.back().first = rows[i].index;
      _layers.back().begin = i;
    }
    Layer& layer = _layers.back();
    layer.end = i + 1;
    layer.update += model.times()[i].update;
    layer.parameters += rows[i].parameters();
    layer.outputs = rows[i].outputs;
    layer.activations += rows[i].outputs;
  }
}

/// If `train` accepts several cuts together, it accepts each of them alone. So many cuts are tried at once
/// while they are accepted. None between an embedding and a layer tied to it is tried: those are nearly all
/// of a language model.
std::vector<bool> DeckPlacer::possibleCuts() const {
  const std::int64_t layers = _model.task().layers.back().index + 1;
  std::vector<bool> possible(layers, true);
  std::int64_t cut = 1, count = 1;
  for (const LayerPlan* leaf : leavesOf(_model.task().program->layers()))
    if (leaf->rules().tied(*leaf))
      while (cut <= leaf->index) possible[cut++] = false;
  while (cut < layers) {
    DeckPlacement plan;
    plan.cuts.resize(std::min(count, layers - cut));
    std::iota(plan.cuts.begin(), plan.cuts.end(), cut);
    count = plan.stages() - 1;
    const bool accepted = std::isfinite(memoryOf(plan));
    if (accepted || count == 1) {
      possible[cut] = accepted;
      cut += count;
    }
    count = accepted ? 2 * count : std::max<std::int64_t>(1, count / 2);
  }
  return possible;
}

double DeckPlacer::rowsOf(const DeckPlacement& plan) const {
  const double share = std::ceil(_model.task().batch / asReal(plan.replicas));
  return std::ceil(share / asReal(plan.microbatches));
}

const std::vector<PassTime>& DeckPlacer::passesOver(double rows) const {
  const auto [found, added] = _passes.try_emplace(rows);
  if (!added) return found->second;
  for (const Layer& layer : _layers) {
    PassTime sum;
    for (std::size_t i = layer.begin; i < layer.end; ++i) {
      const PassTime pass = _model.passOf(i, rows);
      sum.forward += pass.forward;
      sum.backward += pass.backward + _model.task().layers[i].again * pass.forward;
    }
    found->second.push_back(sum);
  }
  return found->second;
}

double DeckPlacer::messageSeconds(double rows, const Layer& before, const Link& link) const {
  return link.seconds(pointToPoint(rows * before.outputs * _number_bytes));
}

/// The layers follow one another. The bandwidth is 1, and edges have the seconds of a message between nodes,
/// which include the latency. Inside a node they are faster by the factor of the largest message.
PlacementTask DeckPlacer::chain(const DeckPlacement& plan, std::int64_t most_stages) const {
  const double rows = rowsOf(plan);
  const std::vector<PassTime>& passes = passesOver(rows);
  const std::int64_t node = std::min(_cluster.node_ranks, most_stages);
  const bool several = most_stages > node;
  PlacementTask task;
  task.devices = most_stages;
  task.microbatches = plan.microbatches;
  task.most_replicas = 1;
  LayerGraph graph;
  double largest = 0.0; // s
  for (std::size_t i = 0; i < _layers.size(); ++i) {
    const Layer& layer = _layers[i];
    graph.layers.push_back({static_cast<std::int64_t>(i), _number_bytes * layer.parameters,
                            _number_bytes * rows * layer.activations, passes[i].forward, passes[i].backward,
                            false});
    if (i == 0) continue;
    const std::int64_t ranks = most_stages * plan.replicas;
    const Link &inside = _cluster.links.of(std::min(_cluster.node_ranks, ranks)),
               &link = several ? _cluster.links.of(ranks) : inside;
    const double seconds = messageSeconds(rows, _layers[i - 1], link),
                 near = messageSeconds(rows, _layers[i - 1], inside);
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

/// The placement has a simpler model of memory: if a plan needs too much, it plans again with less.
std::optional<DeckPlacement> DeckPlacer::place(DeckPlacement plan, std::int64_t most_stages) const {
  PlacementTask task = chain(plan, most_stages);
  if (!detail::tableFits(task, task.graphs.front(), _layers.size() + 1)) return std::nullopt;
  constexpr int most_attempts = 20;
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    const DevicePlan found = placeLayers(task);
    if (!found.feasible) break;
    plan.cuts.clear();
    for (std::size_t stage = 1; stage < found.stages.size(); ++stage)
      plan.cuts.push_back(_layers[found.stages[stage].layers.front()].first);
    if (fits(plan)) return plan;
    const double needed = memoryOf(plan);
    if (std::isinf(needed)) break;
    task.memory *= std::min(0.9, _cluster.memory / needed);
  }
  return std::nullopt;
}

std::optional<DeckPlacement> DeckPlacer::balance(DeckPlacement plan, std::int64_t stages) const {
  std::vector<double> before{0.0};
  for (const PassTime& pass : passesOver(rowsOf(plan)))
    before.push_back(before.back() + pass.forward + pass.backward);
  try {
    plan.cuts = balancedCuts(before, static_cast<int>(stages));
  } catch (const UserError&) {
    return std::nullopt; // too many cuts
  }
  for (std::int64_t& cut : plan.cuts) cut = _layers[cut].first;
  return plan;
}

std::optional<DeckPlacement> DeckPlacer::cutBy(CutRule rule, DeckPlacement plan, std::int64_t stages) const {
  const Program& program = *_model.task().program;
  plan.cuts.resize(stages - 1);
  StrategySection section = plan.strategy(program.deck().strategy);
  section.cut_rule = rule;
  section.cuts.clear();
  try {
    plan.cuts = program.run(section, plan.ranks(), program.deck().training.batch, mostBytes()).partition.cuts;
  } catch (const UserError&) {
    return std::nullopt;
  }
  if (!fits(plan)) return std::nullopt;
  return plan;
}

std::size_t DeckPlacer::layerAt(std::int64_t cut) const {
  const auto found =
      std::lower_bound(_layers.begin(), _layers.end(), cut,
                       [](const Layer& layer, std::int64_t place) { return layer.first < place; });
  return static_cast<std::size_t>(found - _layers.begin());
}

/// `train` accepts any move between possible cuts if it accepts the plan, and only the two stages at a cut
/// change, so the others still fit.
void DeckPlacer::moveCuts(DeckPlacement& plan, StepEstimate step_of) const {
  std::optional<ProgramRun> run; // planned for the first move that is worth it
  std::optional<MemoryBetweenCuts> memory;
  const auto fits_at = [&](std::size_t cut, const DeckPlacement& other) {
    if (!memory) {
      run = runOf(plan);
      memory.emplace(run->config, _model.task().program->layers(), run->grid.stages, run->grid.replicas,
                     run->device);
    }
    return memory->mostAt(cut, other.cuts) <= mostBytes();
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t cut = 0; cut < plan.cuts.size(); ++cut) {
      for (const int step : {-1, 1}) {
        const std::size_t place = layerAt(plan.cuts[cut]) + step;
        const std::size_t before = cut > 0 ? layerAt(plan.cuts[cut - 1]) : 0,
                          after = cut + 1 < plan.cuts.size() ? layerAt(plan.cuts[cut + 1]) : _layers.size();
        if (place <= before || place >= after) continue;
        DeckPlacement other = plan;
        other.cuts[cut] = _layers[place].first;
        other.step = (this->*step_of)(other);
        if (other.step >= plan.step || !fits_at(cut, other)) continue;
        plan = other;
        moved = true;
      }
    }
  }
}

ProgramRun DeckPlacer::runOf(const DeckPlacement& plan) const {
  const Program& program = *_model.task().program;
  return program.run(plan.strategy(program.deck().strategy), plan.ranks());
}

void DeckPlacer::price(DeckPlacement& plan) const {
  const ProgramRun run = runOf(plan);
  plan.step = _model.predict(run).stepSeconds();
  plan.memory = run.memory();
}

double DeckPlacer::stepOf(const DeckPlacement& plan) const {
  try {
    return _model.predict(runOf(plan)).stepSeconds();
  } catch (const UserError&) {
    return std::numeric_limits<double>::infinity();
  }
}

double DeckPlacer::memoryOf(const DeckPlacement& plan) const {
  try {
    return runOf(plan).memory();
  } catch (const UserError&) {
    return std::numeric_limits<double>::infinity();
  }
}

double DeckPlacer::roughStepOf(const DeckPlacement& plan) const {
  const double rows = rowsOf(plan);
  const std::vector<PassTime>& passes = passesOver(rows);
  std::vector<std::size_t> first{0};
  for (const std::int64_t cut : plan.cuts) first.push_back(layerAt(cut));
  first.push_back(_layers.size());
  std::vector<PipelineStage> stages(plan.stages());
  double slowest_end = 0.0; // end of sums and updates after the pipeline
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::size_t end = first[s + 1];
    double update = 0.0, parameters = 0.0;
    for (std::size_t i = first[s]; i < end; ++i) {
      stages[s].forward += passes[i].forward;
      stages[s].backward += passes[i].backward;
      update += _layers[i].update;
      parameters += _layers[i].parameters;
    }
    if (end < _layers.size()) {
      const Link& link = _cluster.linkAfter(static_cast<std::int64_t>(s), plan.stages(), plan.replicas);
      stages[s].message = messageSeconds(rows, _layers[end - 1], link);
      stages[s].copying = (1.0 - _cluster.overlap) * stages[s].message;
    }
    const Messages sum = ringAllReduce(plan.replicas, parameters * _number_bytes);
    const double reduced = plan.replicas > 1 ? sum.count / 2.0 * sum.bytes : 0.0;
    slowest_end = std::max(slowest_end, update + _cluster.links.of(plan.ranks()).seconds(sum) +
                                            reduced * _cluster.seconds_per_reduced_byte);
  }
  return pipelineSeconds(stages, plan.microbatches, plan.strategy(_model.task().program->deck().strategy),
                         _cluster.sharing(plan.stages(), plan.ranks())) +
         slowest_end;
}

void DeckPlacer::preferUsual(DeckPlacement& best, std::int64_t ranks,
                             const std::vector<std::int64_t>& microbatches) const {
  if (best.ranks() != ranks) return;
  double limit = best.step / _cluster.worthwhile(ranks);
  DeckPlacement whole;
  for (const std::int64_t count : microbatches) {
    whole.microbatches = count;
    std::optional<DeckPlacement> plan = cutBy(CutRule::flops, whole, ranks);
    if (plan) plan->step = stepOf(*plan);
    if (!plan || !(plan->step < limit)) continue;
    limit = clearly * plan->step;
    best = *plan;
  }
}

template <class Visit>
void DeckPlacer::forEachWhole(std::int64_t ranks, const std::vector<std::int64_t>& microbatches,
                              Visit visit) const {
  DeckPlacement whole;
  for (whole.replicas = 1; whole.replicas <= ranks; ++whole.replicas) {
    const double share = _model.task().batch / asReal(whole.replicas);
    if (share != std::floor(share)) continue;
    for (const std::int64_t count : microbatches) {
      if (asReal(count) > share && _microbatches == 0) break;
      whole.microbatches = std::min(count, static_cast<std::int64_t>(share)); // of one sample at least
      visit(whole, std::min(ranks / whole.replicas, static_cast<std::int64_t>(_layers.size())));
    }
  }
}

std::optional<DeckPlacement> DeckPlacer::fastest(std::int64_t ranks) const {
  const std::vector<std::int64_t> counts =
      _microbatches > 0
          ? std::vector<std::int64_t>{std::min(_microbatches, static_cast<std::int64_t>(_model.task().batch))}
          : std::vector<std::int64_t>{1, 2, 4, 8};
  std::optional<DeckPlacement> best;
  constexpr double hopeless = 1.1; // moving cuts rarely gains this much
  double best_rough = std::numeric_limits<double>::infinity();
  const auto consider = [&](std::optional<DeckPlacement> plan) {
    if (plan) plan->step = roughStepOf(*plan);
    if (!plan || plan->step > hopeless * best_rough || !fits(*plan)) return;
    moveCuts(*plan, &DeckPlacer::roughStepOf);
    best_rough = std::min(best_rough, plan->step);
    plan->step = stepOf(*plan);
    if (best ? plan->step < clearly * best->step : std::isfinite(plan->step)) best = std::move(plan);
  };
  forEachWhole(ranks, counts, [&](const DeckPlacement& whole, std::int64_t most) {
    consider(place(whole, most));
    for (std::int64_t stages = 1; stages <= most; ++stages) consider(balance(whole, stages));
  });
  if (!best) // perhaps stages of equal memory fit
    forEachWhole(ranks, counts, [&](const DeckPlacement& whole, std::int64_t most) {
      for (std::int64_t stages = 1; stages <= most; ++stages) consider(cutBy(CutRule::memory, whole, stages));
    });
  if (!best) return best;
  moveCuts(*best, &DeckPlacer::stepOf);
  preferUsual(*best, ranks, counts);
  price(*best);
  return best;
}

} // namespace partita
