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
///
/// Throws UserError if a layer has too few channels or units.
StagePlan partOfStage(const StagePlan& stage, const StrategySection& strategy, int part);

/// The same if the stage has several parts, otherwise the stage itself.
StagePlan ownStage(const StagePlan& stage, const StrategySection& strategy, int part);

/// What one part sends in training steps.
struct PartTraffic {
  std::int64_t messages = 0, bytes = 0;
};

/// Of part `part` of a stage that is divided, for one forward and backward pass over `rows` samples with
/// activations of `real_bytes` bytes per value; `input_gradient`: is the gradient of its input computed?
PartTraffic partTraffic(const StagePlan& own, int part, std::int64_t rows, std::int64_t real_bytes,
                        bool input_gradient);

} // namespace partita
