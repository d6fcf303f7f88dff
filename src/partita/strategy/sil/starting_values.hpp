#pragma once

#include "partita/nn/sil_labels.hpp"
#include "partita/plan/stage_plan.hpp"

namespace partita {

/// Changes the random parameters `values` of a whole stage, in the order of its flat buffer, to those with
/// which SIL starts: outputs near the mean of the labels of the cut after the stage, `labels`; learned labels
/// that begin as fixed ones; and a later stage of one matrix that passes on the labels of the cut before it.
void startFromLabels(const RunConfig& config, const StagePlan& plan, const SilLabels& labels,
                     std::int64_t classes, std::vector<Real>& values);

} // namespace partita
