#include "partita/plan/strategies/cost_strategy.hpp"

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
  case StrategyKind::hogbatch: // its workers are not in step: nothing is predicted per step
    return CostStrategy::data;
  case StrategyKind::sil:
    break;
  }
  for (const CostStrategy sil : {CostStrategy::sil_free, CostStrategy::sil_frozen})
    if (inputOf(sil) == section.sil.input) return sil;
  return CostStrategy::sil_relay;
}

StrategySection sectionFor(const RankChoice& choice, const StrategySection& deck) {
  const CostStrategy strategy = choice.strategy;
  const RankGrid& grid = choice.grid;
  StrategySection section = deck;
  section.kind = kindOf(strategy);
  const bool same_cuts = section.kind == deck.kind && grid.stages == deck.stages;
  if (!same_cuts && section.cut_rule == CutRule::list) {
    section.cut_rule = CutRule::flops;
    section.cuts.clear();
  }
  section.stages = grid.stages;
  section.replicas = grid.replicas;
  section.parts = grid.parts;
  section.split = choice.split.value_or(section.split);
  if (section.parts != deck.parts || section.split != deck.split) section.parts_grid = {{0}};
  section.pipeline.microbatches = choice.microbatches;
  section.pipeline.schedule = scheduleOf(strategy, section.pipeline.schedule);
  if (section.kind == StrategyKind::sil && costStrategy(deck) != strategy) {
    section.sil = {};
    section.sil.input = inputOf(strategy);
  }
  return section;
}

} // namespace partita
