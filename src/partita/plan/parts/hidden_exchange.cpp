#include "partita/plan/parts/hidden_exchange.hpp"

#include "partita/plan/layer_rules.hpp"

#include <algorithm>

namespace partita {

HiddenExchange hiddenExchange(const std::vector<LayerPlan>& layers, std::size_t index) {
  const LayerPlan& layer = layers[index];
  if (layer.part && layer.part->partial_input_gradient) return HiddenExchange::sum;
  const LayerWork work = layer.group() ? LayerWork::other : layer.rules().work();
  if (work != LayerWork::product && work != LayerWork::convolution && work != LayerWork::attention)
    return HiddenExchange::none;
  const ExchangePlan* before = index > 0 ? layers[index - 1].exchange.get() : nullptr;
  const bool sends = before != nullptr && before->kind != PartStep::gather_slice; // in the backward pass
  return sends ? HiddenExchange::before : HiddenExchange::none;
}

std::int64_t workOfLayers(const std::vector<LayerPlan>& layers, std::int64_t rows) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::int64_t values = layers[i].workValues(rows);
    const HiddenExchange hidden = hiddenExchange(layers, i);
    if (hidden == HiddenExchange::sum) values += layers[i].sumValues(rows * layers[i].inputs());
    if (hidden == HiddenExchange::before) values += layers[i - 1].workValues(rows);
    most = std::max(most, values);
  }
  return most;
}

} // namespace partita
