#include "partita/nn/layer.hpp"

#include "partita/core/error.hpp"
#include "partita/nn/activation_layer.hpp"
#include "partita/nn/attention.hpp"
#include "partita/nn/batch_norm.hpp"
#include "partita/nn/convolution.hpp"
#include "partita/nn/dense.hpp"
#include "partita/nn/dropout.hpp"
#include "partita/nn/embedding.hpp"
#include "partita/nn/flatten.hpp"
#include "partita/nn/global_pool.hpp"
#include "partita/nn/group.hpp"
#include "partita/nn/norm.hpp"
#include "partita/nn/pool.hpp"

namespace partita {

std::unique_ptr<Layer> makeLayer(const LayerPlan& plan) {
  const std::string& type = plan.spec.type;
  if (type == "dense") return std::make_unique<Dense>(plan);
  if (type == "activation") return std::make_unique<ActivationLayer>(plan);
  if (type == "embedding") return std::make_unique<Embedding>(plan);
  if (type == "attention") return std::make_unique<Attention>(plan);
  if (type == "layer-norm" || type == "rms-norm") return std::make_unique<Norm>(plan);
  if (type == "dropout") return std::make_unique<Dropout>(plan);
  if (type == "conv2d" || type == "conv3d") return std::make_unique<Convolution>(plan);
  if (type == "max-pool") return std::make_unique<MaxPool>(plan);
  if (type == "average-pool") return std::make_unique<AveragePool>(plan);
  if (type == "global-average-pool") return std::make_unique<GlobalAveragePool>(plan);
  if (type == "flatten") return std::make_unique<Flatten>(plan);
  if (type == "batch-norm") return std::make_unique<BatchNorm>(plan);
  if (plan.group()) return std::make_unique<Group>(plan);
  PARTITA_FAIL("no layer of type " + type);
}

} // namespace partita
