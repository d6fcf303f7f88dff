#pragma once

#include "partita/plan/stage_plan.hpp"

namespace partita {

/// `free`: are the inputs of later stages mixtures of labels? Otherwise they are single labels with noise.
bool mixesLabels(const SilSection& sil);

/// Does a later stage of a single layer start as a map that passes the labels on?
bool startsWithLabels(const SilSection& sil);

/// Is the cut activation replaced by posterior x labels in the joined network? False without labels.
bool reencodes(const StrategySection& strategy);

/// Is the stage before a cut matched to its labels before its last activation, which then begins the next
/// stage? True for fixed signed labels, which cannot be reached through a ReLU; except that a first stage of
/// one layer keeps its activation if the loss is a cross-entropy, because otherwise it would be a linear
/// model. False without labels. `weight_layers`: number of layers with weights before the cut.
bool matchedBefore(const StrategySection& strategy, std::int64_t weight_layers);

/// Does the joined network add up what its stages predict? False without labels.
bool addsExits(const StrategySection& strategy);
/// Are the weights of this sum fitted after the training?
bool fitsExits(const StrategySection& strategy);

/// The name in checkpoints of the parameters that a stage has sent last.
std::string keptStateOf(ParameterCopy::Kind kind);

/// The kind of the labels of a cut of `width` units; if they learn, the kind of their initial values.
LabelKind labelKind(const SilSection& sil, std::int64_t width, std::int64_t classes);

} // namespace partita
