#include "partita/nn/layer.hpp"

#include "partita/nn/attention.hpp"
#include "partita/nn/batch_norm.hpp"
#include "partita/nn/convolution.hpp"
#include "partita/nn/dense.hpp"
#include "partita/nn/dropout.hpp"
#include "partita/nn/elementwise.hpp"
#include "partita/nn/embedding.hpp"
#include "partita/nn/group.hpp"
#include "partita/nn/group_norm.hpp"
#include "partita/nn/norm.hpp"
#include "partita/nn/pool.hpp"

namespace partita {

namespace {

template <class Made, auto... settings>
std::unique_ptr<Layer> make(const LayerPlan& plan) {
  return std::make_unique<Made>(plan, settings...);
}

} // namespace

const LayerTable<LayerFactory>& layerClasses() {
  static const LayerTable<LayerFactory> classes{{"dense", make<Dense>},
                                                {"activation", make<ActivationLayer>},
                                                {"block", make<Group>},
                                                {"residual", make<Group>},
                                                {"conv2d", make<Convolution>},
                                                {"conv3d", make<Convolution>},
                                                {"max-pool", make<MaxPool>},
                                                {"average-pool", make<AveragePool>},
                                                {"global-average-pool", make<GlobalAveragePool>},
                                                {"flatten", make<Flatten>},
                                                {"batch-norm", make<BatchNorm>},
                                                {"group-norm", make<GroupNorm>},
                                                {"embedding", make<Embedding>},
                                                {"attention", make<Attention>},
                                                {"layer-norm", make<Norm, Norm::Centre::mean>},
                                                {"rms-norm", make<Norm, Norm::Centre::zero>},
                                                {"dropout", make<Dropout>}};
  return classes;
}

std::unique_ptr<Layer> makeLayer(const LayerPlan& plan) {
  return layerClasses().at(plan.spec.type)(plan);
}

} // namespace partita
