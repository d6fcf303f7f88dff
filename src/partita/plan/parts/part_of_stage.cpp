#include "partita/plan/parts/part_of_stage.hpp"

#include "partita/config/names.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/parts/copy_on_part.hpp"
#include "partita/plan/parts/divide_layers.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <utility>

namespace partita {

StagePlan partOfStage(const StagePlan& stage, const StrategySection& strategy, int part) {
  LayerDivider divider(strategy, stage, part);
  const Shape &in = stage.layers.front().in, &out = stage.layers.back().out;
  const bool whole = planOf(strategy).wholeAtCuts(strategy);
  const auto at_cut = [&](const Shape& shape) { return whole ? wholeFlow(shape) : divider.between(shape); };
  if (stage.divisible_loss) divider.divideClasses();
  PartChain chain = divider.divide(stage.layers, stage.first() ? wholeFlow(in) : at_cut(in), stage.last());
  StagePlan own = stage;
  if (stage.last() && stage.divisible_loss && chain.flow().layout == Layout::channels)
    own.class_parts = {chain.flow().ranges, part};
  else
    chain.divideAs(stage.layers.back(), stage.last() ? wholeFlow(out) : at_cut(out));
  own.layers = chain.take();
  for (LayerPlan& layer : own.decoder) layer = wholeOnPart(layer, static_cast<int>(strategy.parts), part);
  if (stage.head.empty()) return own;
  PartChain head = divider.divide(stage.head, chain.flow(), true);
  head.divideAs(stage.head.back(), wholeFlow(stage.head.back().out));
  own.head = head.take();
  return own;
}

bool dividesPlaces(const StrategySection& strategy) {
  return strategy.parts > 1 && strategy.split == Split::spatial;
}

namespace {

/// The grid of the deck for samples with this many axes of positions.
PlaceGrid chosenGrid(const std::vector<std::int64_t>& numbers, std::size_t axes) {
  if (numbers.size() != axes)
    throw UserError("strategy/parts_grid: needs " + counted(static_cast<std::int64_t>(axes), "number") +
                    ", one per axis of positions, not " + std::to_string(numbers.size()));
  PlaceGrid grid{1, 1, 1};
  std::copy(numbers.begin(), numbers.end(), grid.end() - static_cast<std::ptrdiff_t>(axes));
  return grid;
}

/// All grids of this many parts; those that divide the first axes most come first.
std::vector<PlaceGrid> gridsOf(int parts, bool volumes) {
  std::vector<PlaceGrid> grids;
  for (int depth = volumes ? parts : 1; depth > 0; --depth)
    for (int rows = parts / depth; rows > 0 && parts % depth == 0; --rows)
      if (parts / depth % rows == 0) grids.push_back({depth, rows, parts / depth / rows});
  return grids;
}

} // namespace

PlaceGrid placeGridOf(const std::vector<LayerPlan>& layers, const StrategySection& strategy) {
  const Shape& in = layers.front().in;
  if (!dividesPlaces(strategy)) return {1, 1, 1};
  PlaceGrid best{static_cast<int>(strategy.parts), 1, 1}; // fits nothing if no grid does
  if (in.size() < 3) return best;
  const std::vector<std::int64_t>& numbers = strategy.parts_grid.values;
  if (numbers.size() > 1) return chosenGrid(numbers, in.size() - 1);
  PlaceCost least;
  for (const PlaceGrid& grid : gridsOf(static_cast<int>(strategy.parts), in.size() > 3)) {
    PlaceCost cost;
    for (const LayerPlan& layer : layers) cost += placeCost(layer, grid);
    if (std::make_pair(-cost.outputs, cost.halo) >= std::make_pair(-least.outputs, least.halo)) continue;
    best = grid;
    least = cost;
  }
  return best;
}

void checkParts(const StrategySection& strategy, const std::vector<StagePlan>& stages) {
  if (strategy.parts == 1) return;
  bool divided = false;
  for (const StagePlan& stage : stages) {
    const StagePlan own = partOfStage(stage, strategy, static_cast<int>(strategy.parts) - 1);
    for (const LayerPlan* leaf : leavesOf(own.layers))
      divided = divided || leaf->forwardFlops() < leaf->whole().forwardFlops();
    for (const ParameterCopy& copy : stage.copies)
      copyOnPart(copy, stages, strategy, static_cast<int>(strategy.parts) - 1);
  }
  if (divided) return;
  throw UserError("strategy/parts: no layer of the network can be shared by " +
                  std::to_string(strategy.parts) + " parts with split '" + nameOf(strategy.split) + "'");
}

StagePlan ownStage(const StagePlan& stage, const StrategySection& strategy, int part) {
  return strategy.parts > 1 ? partOfStage(stage, strategy, part) : stage;
}

} // namespace partita
