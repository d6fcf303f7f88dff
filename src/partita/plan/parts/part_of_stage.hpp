#pragma once

#include "partita/plan/stage_plan.hpp"

namespace partita {

/// What part `part` of `strategy.parts` computes of a stage, with the steps in which parts exchange values.
///
/// - `filter`, `channel` (Kahira, Nguyen et al., ParaDL, HPDC 2021): activations between layers are whole.
///   Convolutions and dense layers are divided by output or by input; everything else is done by every part.
/// - `grid` (the algorithms X, Y and W of DiHydrogen, LLNL): activations of images and vectors are divided by
///   channel, always in the same way, and layers both by input and by output. A layer divides its channels in
///   the way in which it moves the fewest bytes. In sequences, pairs of dense layers are divided by output,
///   then by input (Shoeybi et al., Megatron-LM, arXiv 1909.08053).
/// - `spatial` (ParaDL): activations of images and volumes are divided along their first axis of places, and
///   layers with windows get the places of other parts that these see. The first layer that needs all places
///   gathers them, and every part computes it.
///
/// Throws UserError if a layer has too few channels or units.
StagePlan partOfStage(const StagePlan& stage, const StrategySection& strategy, int part);

/// `partOfStage` if the stage has several parts, otherwise the stage itself.
StagePlan ownStage(const StagePlan& stage, const StrategySection& strategy, int part);

/// Throws UserError if the stages of a network cannot be divided, or nothing in them can.
void checkParts(const StrategySection& strategy, const std::vector<StagePlan>& stages);

} // namespace partita
