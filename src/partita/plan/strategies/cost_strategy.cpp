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

} // namespace

CostStrategy costStrategy(const StrategySection& section) {
  switch (section.kind) {
  case StrategyKind::joint:
    return CostStrategy::data;
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
  section.parts = 1; // the cost of parts does not come from a plan
  section.pipeline.microbatches = microbatches;
  section.pipeline.schedule = scheduleOf(strategy, section.pipeline.schedule);
  if (section.kind == StrategyKind::sil && costStrategy(deck) != strategy) {
    section.sil = {};
    section.sil.input = inputOf(strategy);
  }
  return section;
}

} // namespace partita
