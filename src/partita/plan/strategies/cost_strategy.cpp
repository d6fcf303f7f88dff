#include "partita/plan/strategies/cost_strategy.hpp"

#include <optional>

namespace partita {

namespace {

StageInput inputOf(CostStrategy strategy) {
  if (strategy == CostStrategy::sil_free) return StageInput::free;
  return strategy == CostStrategy::sil_frozen ? StageInput::frozen : StageInput::relay;
}

StrategyKind kindOf(CostStrategy strategy) {
  if (strategy == CostStrategy::local_sgd) return StrategyKind::local_sgd;
  if (isPipeline(strategy)) return StrategyKind::pipeline;
  return isOwn(strategy) ? StrategyKind::sil : StrategyKind::joint;
}

/// What the parts of a strategy divide.
std::optional<Split> splitOf(CostStrategy strategy) {
  switch (strategy) {
  case CostStrategy::filter:
  case CostStrategy::data_filter:
    return Split::filter;
  case CostStrategy::channel:
    return Split::channel;
  case CostStrategy::grid:
  case CostStrategy::data_grid:
    return Split::grid;
  case CostStrategy::spatial:
  case CostStrategy::data_spatial:
    return Split::spatial;
  default:
    return {};
  }
}

CostStrategy jointStrategy(const StrategySection& section) {
  if (section.parts == 1) return CostStrategy::data;
  const bool replicas = section.replicas > 1;
  switch (section.split) {
  case Split::filter:
    return replicas ? CostStrategy::data_filter : CostStrategy::filter;
  case Split::channel:
    return CostStrategy::channel;
  case Split::grid:
    return replicas ? CostStrategy::data_grid : CostStrategy::grid;
  case Split::spatial:
    break;
  }
  return replicas ? CostStrategy::data_spatial : CostStrategy::spatial;
}

} // namespace

CostStrategy costStrategy(const StrategySection& section) {
  switch (section.kind) {
  case StrategyKind::joint:
    return jointStrategy(section);
  case StrategyKind::pipeline:
    return CostStrategy::pipeline;
  case StrategyKind::local_sgd:
    return CostStrategy::local_sgd;
  case StrategyKind::sil:
    break;
  }
  for (const CostStrategy sil : {CostStrategy::sil_free, CostStrategy::sil_frozen})
    if (inputOf(sil) == section.sil.input) return sil;
  return CostStrategy::sil_relay;
}

StrategySection sectionFor(CostStrategy strategy, const StrategySection& deck, const RankGrid& grid,
                           std::int64_t microbatches) {
  StrategySection section = deck;
  section.kind = kindOf(strategy);
  const bool same_cuts = section.kind == deck.kind && grid.stages == deck.stages;
  if (!same_cuts && section.cut_rule == CutRule::list) {
    section.cut_rule = CutRule::flops;
    section.cuts.clear();
  }
  section.stages = grid.stages;
  section.replicas = grid.replicas;
  const std::optional<Split> split = splitOf(strategy);
  section.parts = split ? grid.parts : 1;
  section.split = split.value_or(section.split);
  section.pipeline.microbatches = microbatches;
  section.pipeline.schedule = scheduleOf(strategy, section.pipeline.schedule);
  if (section.kind == StrategyKind::sil && costStrategy(deck) != strategy) {
    section.sil = {};
    section.sil.input = inputOf(strategy);
  }
  return section;
}

} // namespace partita
