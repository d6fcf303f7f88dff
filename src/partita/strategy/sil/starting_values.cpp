#include "partita/strategy/sil/starting_values.hpp"

#include "partita/plan/layer_rules.hpp"
#include "partita/plan/strategies/sil.hpp"
#include "partita/plan/strategies/sil_heads.hpp"
#include "partita/strategy/local_stage.hpp"

#include <algorithm>

namespace partita {

namespace {

/// The last leaf with parameters, if only pooling and flattening follow it; null if the stage ends
/// differently, for example with a sum of branches.
const LayerPlan* lastLinear(const std::vector<LayerPlan>& layers) {
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    if (layer->rules().residual()) return nullptr;
    if (layer->group()) return lastLinear(layer->body);
    if (layer->parameters() > 0) return &*layer;
    if (layer->spec.activation != Activation::identity) return nullptr;
  }
  return nullptr;
}

/// Mean of the labels for each bias value; all places of a channel share one.
std::vector<double> meanOfChannels(const std::vector<double>& mean, std::int64_t channels) {
  std::vector<double> means(static_cast<std::size_t>(channels), 0.0);
  const std::size_t places = mean.size() / means.size();
  for (std::size_t i = 0; i < mean.size(); ++i) means[i / places] += mean[i] / static_cast<double>(places);
  return means;
}

/// Cut initialisation: the stage starts at the mean label with little spread, so that the first steps turn
/// outputs instead of killing units. To that end the last weights, or the scale of a batch norm, are made
/// small.
void startAtMeanLabel(const SilSection& sil, const StagePlan& plan, const SilLabels& labels,
                      std::vector<Real>& values) {
  const LayerPlan* layer = lastLinear(plan.layers);
  if (layer == nullptr || !layer->rules().scalesOutput(*layer)) return;
  const std::string factors = layer->parameterShapes().front().name;
  for (const StageTensor& tensor : parameterTensors(plan.layers)) {
    if (tensor.layer != layer->name()) continue;
    Real* const own = values.data() + tensor.offset;
    if (tensor.name == factors) {
      for (std::int64_t i = 0; i < tensor.size; ++i) own[i] *= static_cast<Real>(sil.cut_gain);
    } else {
      const bool known = plan.labelsCountUnits();
      const std::vector<double> means = known
                                            ? meanOfChannels(labels.mean, tensor.size)
                                            : std::vector<double>(static_cast<std::size_t>(tensor.size), 0.0);
      std::transform(means.begin(), means.end(), own, [](double mean) { return static_cast<Real>(mean); });
    }
  }
}

/// A later stage of one matrix starts by passing on the prediction of the previous stage. The last stage
/// decodes the labels, z = x (S - mean)^T / tau. A stage between two cuts adds to its small random weights
/// the centred map from the previous labels to its own, x (S - mean)^T (S' - mean') / width, doubled if an
/// entrance drops half of x.
void passLabelsOn(const StagePlan& plan, const SilLabels& before, const SilLabels& own,
                  std::vector<Real>& values) {
  const std::size_t inputs = before.mean.size(), outputs = own.mean.size(),
                    classes = before.values.size() / inputs;
  if (plan.last()) {
    const std::vector<Real> decoder = before.decoder();
    std::copy(decoder.begin(), decoder.end(), values.begin());
    return;
  }
  const double halves = plan.entrance ? 2.0 : 1.0;
  const double scale = halves / (static_cast<double>(inputs) * before.deviation * before.deviation);
  for (std::size_t o = 0; o < outputs; ++o) {
    for (std::size_t i = 0; i < inputs; ++i) {
      double sum = 0.0;
      for (std::size_t c = 0; c < classes; ++c)
        sum += own.centredAt(c * outputs + o) * before.centredAt(c * inputs + i);
      values[o * inputs + i] += static_cast<Real>(scale * sum);
    }
  }
}

/// The last layer of a head starts as the decoder of fixed labels.
void startLearnedLabels(const StagePlan& plan, const SilLabels& labels, std::vector<Real>& values) {
  const std::vector<Real> decoder = labels.decoder();
  std::copy(decoder.begin(), decoder.end(),
            values.begin() + parameterTensors(plan.allLayers()).back().offset);
}

/// Does the stage start as the map of `passLabelsOn`?
bool passesLabelsOn(const SilSection& sil, const StagePlan& plan) {
  if (plan.first() || !startsWithLabels(sil) || !labelsBeforeCountUnits(sil, plan.layers.front().in))
    return false;
  if (!plan.last() && !plan.labelsCountUnits()) return false;
  const LayerPlan& last = plan.layers.back();
  const std::vector<ParameterShape> shapes = last.parameterShapes();
  const Shape from_labels_to_labels{plan.labelWidth(), plan.inputs() / plan.positions};
  return last.parameters() == plan.parameters() && !shapes.empty() &&
         shapes.front().extents == from_labels_to_labels;
}

} // namespace

void startFromLabels(const RunConfig& config, const StagePlan& plan, const SilLabels& labels,
                     std::int64_t classes, std::vector<Real>& values) {
  const SilSection& sil = config.strategy.sil;
  if (!plan.last() && sil.initialisation == CutInitialisation::cut)
    startAtMeanLabel(sil, plan, labels, values);
  if (!plan.head.empty()) startLearnedLabels(plan, labels, values);
  if (passesLabelsOn(sil, plan)) {
    passLabelsOn(plan, labelsOfCut(config, classes, plan.inputs() / plan.positions, plan.index - 1), labels,
                 values);
  }
}

} // namespace partita
