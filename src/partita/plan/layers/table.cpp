#include "partita/plan/layers/table.hpp"

namespace partita {

Moves LayerRules::moves(const LayerPlan& plan) const {
  const auto in = static_cast<double>(plan.inputs()), out = static_cast<double>(plan.outputs());
  return {in + out, 0.0, in + 2 * out};
}

const LayerTable<const LayerRules*>& layerRules() {
  static const LayerTable<const LayerRules*> rules{{"dense", &denseRules()},
                                                   {"activation", &elementwiseRules()},
                                                   {"block", &blockRules()},
                                                   {"residual", &residualRules()},
                                                   {"conv2d", &conv2dRules()},
                                                   {"conv3d", &conv3dRules()},
                                                   {"max-pool", &maxPoolRules()},
                                                   {"average-pool", &averagePoolRules()},
                                                   {"global-average-pool", &globalAveragePoolRules()},
                                                   {"flatten", &flattenRules()},
                                                   {"batch-norm", &batchNormRules()},
                                                   {"group-norm", &groupNormRules()},
                                                   {"embedding", &embeddingRules()},
                                                   {"attention", &attentionRules()},
                                                   {"layer-norm", &layerNormRules()},
                                                   {"rms-norm", &rmsNormRules()},
                                                   {"dropout", &elementwiseRules()}};
  return rules;
}

} // namespace partita
