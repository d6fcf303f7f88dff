#include "partita/nn/layer.hpp"

#include "partita/nn/attention.hpp"
#include "partita/nn/batch_norm.hpp"
#include "partita/nn/convolution.hpp"
#include "partita/nn/dense.hpp"
#include "partita/nn/dropout.hpp"
#include "partita/nn/elementwise.hpp"
#include "partita/nn/embedding.hpp"
#include "partita/nn/exchange.hpp"
#include "partita/nn/group.hpp"
#include "partita/nn/group_norm.hpp"
#include "partita/nn/norm.hpp"
#include "partita/nn/pool.hpp"
#include "partita/nn/shape_order.hpp"
#include "partita/plan/parts/flow.hpp"

namespace partita {

namespace {

template <class Made, auto... Settings>
std::unique_ptr<Layer> make(const LayerPlan& plan) {
  return std::make_unique<Made>(plan, Settings...);
}

/// A part of the stage masks its part of each sample.
std::unique_ptr<Layer> makeDropout(const LayerPlan& plan) {
  if (!plan.part) return std::make_unique<Dropout>(plan);
  TensorSlice slice = wholeOf(plan.whole().in);
  slice.extents = plan.in;
  if (!plan.part->by_places) {
    const std::size_t axis = isSequence(plan.in) && !plan.part->by_positions ? 1 : 0;
    slice.offset[axis] = plan.part->outputs.front().begin;
  }
  for (std::size_t axis = 1; plan.part->by_places && axis < plan.in.size(); ++axis)
    slice.offset[axis] = plan.part->block.axes[placeAxis(plan.in, axis)].begin;
  return std::make_unique<Dropout>(plan, slice);
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
                                                {"dropout", makeDropout}};
  return classes;
}

std::unique_ptr<Layer> makeLayer(const LayerPlan& plan) {
  if (plan.exchange) return std::make_unique<ExchangeLayer>(plan);
  std::unique_ptr<Layer> layer = layerClasses().at(plan.spec.type)(plan);
  if (!plan.reorders()) return layer;
  return std::make_unique<ShapeOrder>(plan, std::move(layer));
}

} // namespace partita
