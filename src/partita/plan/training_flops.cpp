#include "partita/plan/training_flops.hpp"

#include <algorithm>

namespace partita {

TrainingFlops::TrainingFlops(const std::vector<LayerPlan>& layers)
    : _own{0.0}, _input{0.0}, _next_trained(layers.size(), static_cast<std::int64_t>(layers.size())) {
  for (const LayerPlan& layer : layers) {
    _own.push_back(_own.back() + layer.forwardFlops() + layer.weightFlops());
    _input.push_back(_input.back() + layer.inputFlops());
  }
  for (std::size_t i = layers.size(); i-- > 0;) {
    if (layers[i].parameters() > 0)
      _next_trained[i] = static_cast<std::int64_t>(i);
    else if (i + 1 < layers.size())
      _next_trained[i] = _next_trained[i + 1];
  }
}

double TrainingFlops::of(std::int64_t first, std::int64_t last) const {
  const auto begin = static_cast<std::size_t>(first), end = static_cast<std::size_t>(last);
  const auto wanted = std::min(end, static_cast<std::size_t>(_next_trained[begin]) + 1);
  return _own[end] - _own[begin] + _input[end] - _input[wanted];
}

double TrainingFlops::withInputGradient(std::int64_t first, std::int64_t last) const {
  const auto begin = static_cast<std::size_t>(first), end = static_cast<std::size_t>(last);
  return _own[end] - _own[begin] + _input[end] - _input[begin];
}

} // namespace partita
