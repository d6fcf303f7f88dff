#pragma once

#include "partita/plan/parts/flow.hpp"
#include "partita/plan/stage_plan.hpp"

namespace partita {

/// The share of a stage that part `part` of `strategy.parts` computes, with the steps in which parts exchange
/// values.
///
/// - `filter`, `channel` (Kahira, Nguyen et al., ParaDL, HPDC 2021): activations between layers are whole.
///   Convolutions and dense layers are divided by output or by input; every part does everything else.
/// - `grid` (the algorithms X, Y and W of DiHydrogen, LLNL): activations of images and vectors are divided by
///   channel, always in the same way, and layers both by input and by output. Each layer uses the grid that
///   moves the fewest bytes. In sequences, attention is divided by heads, pairs of dense layers by output,
///   then by input, embeddings and the last layer by tokens (Shoeybi et al., Megatron-LM, arXiv 1909.08053),
///   and everything between these by position (Korthikanti et al., arXiv 2205.05198).
/// - `spatial` (ParaDL): activations of images and volumes are divided into blocks of places, and layers with
///   windows exchange halos. The first layer that needs all places gathers them, and every part computes it.
///
/// A head is divided like layers at the end of a network. Fixed labels, and the reconstruction of inputs,
/// need whole activations at the cuts.
///
/// Throws UserError if a layer has too few channels, units, heads or tokens.
StagePlan partOfStage(const StagePlan& stage, const StrategySection& strategy, int part);

/// `partOfStage` if the stage has several parts, otherwise the stage itself.
StagePlan ownStage(const StagePlan& stage, const StrategySection& strategy, int part);

/// Do the parts of a stage have different places of its activations, but the same parameters? Gradients are
/// then added up over parts as well as over replicas.
bool dividesPlaces(const StrategySection& strategy);

/// How the parts of all stages divide the places of a network (`spatial`). Without `strategy/parts_grid`, it
/// is the grid that divides the most outputs, and among several the one with the smallest halos. Throws
/// UserError if the deck's grid does not have one number for each axis of places.
PlaceGrid placeGridOf(const std::vector<LayerPlan>& layers, const StrategySection& strategy);

/// Throws UserError if parts can share nothing, or if the stages of a network or copies of their parameters
/// in heads cannot be divided.
void checkParts(const StrategySection& strategy, const std::vector<StagePlan>& stages);

} // namespace partita
