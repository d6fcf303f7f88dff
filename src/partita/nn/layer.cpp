#include "partita/nn/layer.hpp"

#include "partita/core/error.hpp"
#include "partita/nn/activation_layer.hpp"
#include "partita/nn/dense.hpp"

namespace partita {

std::int64_t ParameterShape::size() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : extents) product *= extent;
  return product;
}

std::unique_ptr<Layer> makeLayer(const LayerPlan& plan) {
  switch (plan.type) {
  case LayerType::dense:
    return std::make_unique<Dense>(plan);
  case LayerType::activation:
    return std::make_unique<ActivationLayer>(plan);
  }
  PARTITA_FAIL("unknown layer type");
}

} // namespace partita
