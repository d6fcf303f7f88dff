#pragma once

#include "partita/plan/stage_plan.hpp"

namespace partita {

/// `free`: are the inputs of later stages mixtures of labels? Otherwise they are single labels with noise.
bool mixesLabels(const SilSection& sil);

/// Does a later stage of a single layer start as a map that passes the labels on?
bool startsWithLabels(const SilSection& sil);

/// Do stages learn to tell classes apart by their products with the labels? Otherwise their outputs approach
/// the labels. Throws std::logic_error if stages have no loss of their own.
bool comparesWithLabels(const StrategySection& strategy);

/// The name in checkpoints of the parameters that a stage has sent last.
std::string keptStateOf(ParameterCopy::Kind kind);

/// The kind of the labels of a cut of `width` units; if they learn, the kind of their initial values.
LabelKind labelKind(const SilSection& sil, std::int64_t width, std::int64_t classes);

/// The labels of such a cut. Throws std::logic_error if stages have no loss of their own.
struct LabelChoice {
  LabelKind kind;
  double kappa, temperature;
};
LabelChoice labelsOf(const StrategySection& strategy, std::int64_t width, std::int64_t classes);

} // namespace partita
