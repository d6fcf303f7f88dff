#include "partita/plan/layers/table.hpp"

namespace partita {

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
