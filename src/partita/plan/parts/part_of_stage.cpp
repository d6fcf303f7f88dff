#include "partita/plan/parts/part_of_stage.hpp"

#include "partita/config/names.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/parts/divide_layers.hpp"

namespace partita {

StagePlan partOfStage(const StagePlan& stage, const StrategySection& strategy, int part) {
  LayerDivider divider(strategy, part, stage.first());
  const Shape &in = stage.layers.front().in, &out = stage.layers.back().out;
  PartChain chain =
      divider.divide(stage.layers, stage.first() ? wholeFlow(in) : divider.between(in), stage.last());
  chain.divideAs(stage.layers.back(), stage.last() ? wholeFlow(out) : divider.between(out));
  StagePlan own = stage;
  own.layers = chain.take();
  for (auto* layers : {&own.head, &own.decoder})
    for (LayerPlan& layer : *layers) layer = wholeOnPart(layer, static_cast<int>(strategy.parts), part);
  return own;
}

void checkParts(const StrategySection& strategy, const std::vector<StagePlan>& stages) {
  if (strategy.parts == 1) return;
  bool divided = false;
  for (const StagePlan& stage : stages) {
    const StagePlan own = partOfStage(stage, strategy, static_cast<int>(strategy.parts) - 1);
    for (const LayerPlan* leaf : leavesOf(own.layers))
      divided = divided || leaf->forwardFlops() < leaf->whole().forwardFlops();
  }
  if (divided) return;
  throw UserError("strategy/parts: no layer of the network can be shared by " +
                  std::to_string(strategy.parts) + " parts with split '" + nameOf(strategy.split) + "'");
}

StagePlan ownStage(const StagePlan& stage, const StrategySection& strategy, int part) {
  return strategy.parts > 1 ? partOfStage(stage, strategy, part) : stage;
}

} // namespace partita
