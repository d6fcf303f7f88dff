#include "partita/plan/placement/deck_placement.hpp"

#include "partita/config/user_error.hpp"
#include "partita/plan/balanced_cuts.hpp"
#include "partita/plan/layer_rules.hpp"
#include "partita/plan/memory_between_cuts.hpp"
#include "partita/plan/placement/placement_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace partita {

namespace {

constexpr double clearly = 0.999; // otherwise fewer replicas, microbatches and stages win
constexpr std::int64_t most_layers = 4096;

/// The time of a search grows with the square of the number of layers.
void checkLayers(std::int64_t layers) {
  if (layers > most_layers)
    throw UserError("network/layers: a placement of " + std::to_string(layers) +
                    " layers would take too long to find; at most " + std::to_string(most_layers) +
                    " are possible, so put several into one block");
}

} // namespace

DeckPlacer::DeckPlacer(const CostModel& model, const Cluster& cluster, std::int64_t microbatches)
    : _model(model), _cluster(cluster), _microbatches(microbatches), _chain(model, cluster, possibleCuts()) {}

/// If `train` accepts several cuts together, it accepts each of them alone. So many cuts are tried at once
/// while they are accepted. None between an embedding and a layer tied to it is tried: those are nearly all
/// of a language model.
std::vector<bool> DeckPlacer::possibleCuts() const {
  const std::int64_t layers = _model.task().layers.back().index + 1;
  checkLayers(layers);
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

/// The placement has a simpler model of memory: if a plan needs too much, it plans again with less.
std::optional<DeckPlacement> DeckPlacer::place(DeckPlacement plan, std::int64_t most_stages) const {
  PlacementTask task = _chain.task(plan, most_stages);
  if (!detail::tableFits(task, task.graphs.front(), _chain.size() + 1)) return std::nullopt;
  constexpr int most_attempts = 20;
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    const DevicePlan found = placeLayers(task);
    if (!found.feasible) break;
    plan.cuts.clear();
    for (std::size_t stage = 1; stage < found.stages.size(); ++stage)
      plan.cuts.push_back(_chain.cutAt(found.stages[stage].layers.front()));
    if (fits(plan)) return plan;
    const double needed = memoryOf(plan);
    if (std::isinf(needed)) break;
    task.memory *= std::min(0.9, _cluster.memory / needed);
  }
  return std::nullopt;
}

std::optional<DeckPlacement> DeckPlacer::balance(DeckPlacement plan, std::int64_t stages) const {
  try {
    plan.cuts = balancedCuts(_chain.secondsBefore(plan), static_cast<int>(stages));
  } catch (const UserError&) {
    return std::nullopt; // too many cuts
  }
  for (std::int64_t& cut : plan.cuts) cut = _chain.cutAt(cut);
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

std::optional<DeckPlacement> DeckPlacer::divide(const DeckPlacement& plan) const {
  std::optional<DeckPlacement> best;
  std::vector<std::size_t> ends;
  for (const std::int64_t cut : plan.cuts) ends.push_back(_chain.pieceAt(cut));
  ends.push_back(_chain.size());
  std::size_t first = 0;
  for (std::size_t stage = 0; stage < ends.size(); first = ends[stage++]) {
    if (ends[stage] - first < 2) continue;
    DeckPlacement other = plan;
    other.cuts.insert(other.cuts.begin() + static_cast<std::ptrdiff_t>(stage),
                      _chain.cutAt(first + (ends[stage] - first) / 2));
    other.step = _chain.stepOf(other);
    if (!best || other.step < best->step) best = std::move(other);
  }
  return best;
}

bool DeckPlacer::shift(DeckPlacement& plan, std::size_t first, std::size_t last,
                       std::ptrdiff_t distance) const {
  const auto at = [&](std::size_t cut) {
    return static_cast<std::ptrdiff_t>(_chain.pieceAt(plan.cuts[cut]));
  };
  const std::ptrdiff_t before = first > 0 ? at(first - 1) : 0,
                       after = last + 1 < plan.cuts.size() ? at(last + 1)
                                                           : static_cast<std::ptrdiff_t>(_chain.size());
  if (at(first) + distance <= before || at(last) + distance >= after) return false;
  for (std::size_t cut = first; cut <= last; ++cut)
    plan.cuts[cut] = _chain.cutAt(static_cast<std::size_t>(at(cut) + distance));
  return true;
}

/// `train` accepts any move between possible cuts if it accepts the plan, and only the stages at the moved
/// cuts change, so the others still fit.
template <class Estimate>
void DeckPlacer::moveCuts(DeckPlacement& plan, const ProgramRun& run, std::size_t furthest,
                          Estimate step_of) const {
  std::optional<MemoryBetweenCuts> memory; // for the first move that is worth it
  const auto fits_at = [&](std::size_t cut, const DeckPlacement& other) {
    if (!memory)
      memory.emplace(run.config, _model.task().program->layers(), run.grid.stages, run.grid.replicas,
                     run.device);
    return memory->mostAt(cut, other.cuts) <= mostBytes();
  };
  const auto improve = [&](std::size_t first, std::size_t last, std::ptrdiff_t distance) {
    DeckPlacement other = plan;
    if (!shift(other, first, last, distance)) return false;
    const double limit = clearly * plan.step;
    other.step = step_of(other, limit);
    if (other.step >= limit) return false;
    for (std::size_t cut = first; cut <= last; ++cut)
      if (!fits_at(cut, other)) return false;
    plan = std::move(other);
    return true;
  };
  furthest = std::min(furthest, _chain.size() - 1);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t cut = 0; cut < plan.cuts.size(); ++cut)
      for (std::size_t distance = 1; distance <= furthest; distance += 1 + distance / 4)
        for (const std::size_t last : {cut, plan.cuts.size() - 1})
          for (const int sign : {-1, 1})
            moved |= improve(cut, last, sign * static_cast<std::ptrdiff_t>(distance));
  }
}

std::optional<DeckPlacement> DeckPlacer::moved(std::optional<DeckPlacement> plan) const {
  if (!plan) return plan;
  try {
    const ProgramRun run = runOf(*plan);
    if (run.memory() > mostBytes()) return std::nullopt;
    plan->step = _chain.stepOf(*plan);
    moveCuts(*plan, run, _chain.size(),
             [this](const DeckPlacement& other, double limit) { return _chain.stepOf(other, limit); });
  } catch (const UserError&) {
    return std::nullopt;
  }
  return plan;
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
      visit(whole, std::min(ranks / whole.replicas, static_cast<std::int64_t>(_chain.size())));
    }
  }
}

double DeckPlacer::balancedStep(std::int64_t ranks, const std::vector<std::int64_t>& microbatches) const {
  double best = std::numeric_limits<double>::infinity();
  forEachWhole(ranks, microbatches, [&](const DeckPlacement& whole, std::int64_t most) {
    for (std::int64_t stages = 1; stages <= most; ++stages) {
      const std::optional<DeckPlacement> plan = balance(whole, stages);
      const double step = plan ? _chain.stepOf(*plan, best) : best;
      if (step < best && fits(*plan)) best = step;
    }
  });
  return best;
}

std::optional<DeckPlacement> DeckPlacer::fastest(std::int64_t ranks) const {
  const std::vector<std::int64_t> counts =
      _microbatches > 0
          ? std::vector<std::int64_t>{std::min(_microbatches, static_cast<std::int64_t>(_model.task().batch))}
          : std::vector<std::int64_t>{1, 2, 4, 8};
  std::optional<DeckPlacement> best;
  constexpr double hopeless = 1.1; // the rough estimate is rarely wrong by this much
  double best_rough = balancedStep(ranks, counts);
  const auto promises = [&](double step) { return step <= hopeless * best_rough; };
  const auto consider = [&](std::optional<DeckPlacement> plan) {
    if (!plan || !promises(plan->step)) return;
    best_rough = std::min(best_rough, plan->step);
    plan->step = stepOf(*plan);
    if (best ? plan->step < clearly * best->step : std::isfinite(plan->step)) best = std::move(plan);
  };
  forEachWhole(ranks, counts, [&](const DeckPlacement& whole, std::int64_t most) {
    consider(moved(place(whole, most)));
    std::optional<DeckPlacement> plan;
    for (std::int64_t stages = 1; stages <= most; ++stages) {
      const std::optional<DeckPlacement> fewer = std::exchange(plan, std::nullopt);
      if (!promises(_chain.leastStep(whole, stages))) continue;
      plan = moved(balance(whole, stages));
      if (!plan) plan = moved(cutBy(CutRule::memory, whole, stages));
      std::optional<DeckPlacement> divided;
      if (fewer && promises(fewer->step)) divided = moved(divide(*fewer));
      if (divided && !(plan && plan->step <= divided->step)) plan = std::move(divided);
      consider(plan);
    }
  });
  if (!best) return best;
  moveCuts(*best, runOf(*best), 1, [this](const DeckPlacement& plan, double) { return stepOf(plan); });
  preferUsual(*best, ranks, counts);
  price(*best);
  return best;
}

} // namespace partita
