#pragma once

#include "partita/config/run_config.hpp"

namespace partita {

/// `free`: are the inputs of later stages mixtures of labels, or single labels with noise?
bool mixesLabels(const SilSection& sil);

/// Does a later stage of one layer start by passing the labels on?
bool startsWithLabels(const SilSection& sil);

/// Does the cut activation become posterior x labels in the joined network? False without labels.
bool reencodes(const StrategySection& strategy);

/// Does the stage in front of a cut meet its labels before the activation at its end, which then opens the
/// next stage? Signed labels cannot be reached through a ReLU, so they do; except that a first stage of one
/// layer keeps its activation where the loss is a cross-entropy, or it would be a linear model. False without
/// labels. `weight_layers`: layers with weights in front of the cut.
bool matchedBefore(const StrategySection& strategy, std::int64_t weight_layers);

} // namespace partita
