#pragma once

#include "partita/plan/stage_plan.hpp"

namespace partita {

/// The layers that a stage before a cut trains besides its own; see docs/sil.md.

/// The layers with which it predicts the classes.
struct StageHead {
  std::vector<LayerPlan> layers; ///< none if its labels are fixed
  std::int64_t copied = 0;       ///< leading layers whose parameters come from the next stage
};

/// The head of a stage that ends before layer `end` of `layers`. Throws UserError if a layer does not fit.
StageHead planStageHead(const SilSection& sil, const std::vector<LayerPlan>& layers, std::int64_t end);

/// The layer with which it reconstructs its input.
struct StageDecoder {
  std::vector<LayerPlan> layers; ///< none if nothing is reconstructed; tokens never are
  std::int64_t window = 1;       ///< side of the windows over which the input is averaged; 0: none fits
};

/// The decoder of a stage that maps `in` to the output of `last`; does the network predict a `sequence`?
StageDecoder planStageDecoder(const SilSection& sil, const Shape& in, const LayerPlan& last, bool sequence);

/// Parts of heads that are refreshed with parameters of later stages. Throws UserError if shapes differ.
std::vector<ParameterCopy> parameterCopies(const SilSection& sil, const std::vector<StagePlan>& stages);

/// The effort per sample of training layers that need the gradient of their input.
Effort effortWithInputGradient(const std::vector<LayerPlan>& layers);

/// Do the labels of the cut before a dense stage, with activations of the shape `cut`, have one value per
/// unit?
bool labelsBeforeCountUnits(const SilSection& sil, const Shape& cut);

} // namespace partita
