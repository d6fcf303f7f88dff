#pragma once

#include "partita/plan/stage_plan.hpp"

namespace partita {

/// `free`: are the inputs of later stages mixtures of labels? Otherwise they are single labels with noise.
bool mixesLabels(const SilSection& sil);

/// Does a later stage of a single layer start as a map that passes the labels on?
bool startsWithLabels(const SilSection& sil);

/// The settings of SIL; null if another strategy trains.
const SilSection* silSettings(const StrategySection& strategy);

/// The name in checkpoints of the parameters that a stage has sent last.
std::string keptStateOf(ParameterCopy::Kind kind);

/// The kind of the labels of a cut of `width` units; if they learn, the kind of their initial values.
LabelKind labelKind(const SilSection& sil, std::int64_t width, std::int64_t classes);

} // namespace partita
