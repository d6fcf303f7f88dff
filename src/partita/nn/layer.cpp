#include "partita/nn/layer.hpp"

#include "partita/core/error.hpp"
#include "partita/nn/activation_layer.hpp"
#include "partita/nn/dense.hpp"
#include "partita/nn/group.hpp"

namespace partita {

std::unique_ptr<Layer> makeLayer(const LayerPlan& plan) {
  const std::string& type = plan.spec.type;
  if (type == "dense") return std::make_unique<Dense>(plan);
  if (type == "activation") return std::make_unique<ActivationLayer>(plan);
  if (plan.group()) return std::make_unique<Group>(plan);
  PARTITA_FAIL("no layer of type " + type);
}

} // namespace partita
