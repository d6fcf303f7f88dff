#pragma once

#include "partita/plan/layer_plan.hpp"

namespace partita {

/// FLOPs of training any run of consecutive layers, each in constant time: what a search over cuts asks for
/// many times.
class TrainingFlops {
 public:
  explicit TrainingFlops(const std::vector<LayerPlan>& layers);

  /// A sample through layers [first, last) trained alone: nothing in front of the first layer with parameters
  /// wants a gradient.
  double of(std::int64_t first, std::int64_t last) const;
  /// The same where the layers in front of `first` want one.
  double withInputGradient(std::int64_t first, std::int64_t last) const;

 private:
  std::vector<double> _own;                ///< sums of forward and weight gradients over layers [0, i)
  std::vector<double> _input;              ///< the same of input gradients
  std::vector<std::int64_t> _next_trained; ///< the first layer with parameters from i on
};

/// A tensor of a flat buffer.
struct StageTensor {
  std::string layer, name; ///< "layer3.dense", "weight"
  std::vector<std::int64_t> extents;
  std::int64_t offset = 0, size = 0; ///< in values
};

/// The parameters of some layers in their flat buffer; offsets are multiples of `tensor_granule`.
std::vector<StageTensor> parameterTensors(const std::vector<LayerPlan>& layers);
/// Their statistics in theirs, without gaps: no product reads them.
std::vector<StageTensor> statisticTensors(const std::vector<LayerPlan>& layers);

/// A stage: consecutive layers that one rank trains.
struct StagePlan {
  int index = 0, stages = 1;
  std::vector<LayerPlan>
      layers; ///< begins with an `activation` layer where the cut in front is matched before it

  bool entrance = false;      ///< does it begin so?
  std::int64_t positions = 1; ///< labels a sample: one, or one each position of a sequence of tokens

  bool first() const { return index == 0; }
  bool last() const { return index + 1 == stages; }
  /// Index of the first and last layer of the deck that it has, its entrance not counted.
  std::int64_t firstLayer() const { return layers[entrance ? 1 : 0].index; }
  std::int64_t lastLayer() const { return layers.back().index; }
  std::int64_t inputs() const { return layers.front().inputs(); }
  std::int64_t outputs() const { return layers.back().outputs(); }
  std::int64_t labelWidth() const { return outputs() / positions; } ///< of the cut behind it
  std::int64_t parameters() const { return countParameters(layers); }
  std::int64_t storedValues() const;            ///< of the flat buffer of parameters, and of each like it
  std::int64_t statistics() const;              ///< values of state that no gradient reaches
  double forwardFlops() const;                  ///< a sample
  double trainFlops(bool input_gradient) const; ///< a sample; does a gradient leave the stage at its front?
  std::int64_t labelValues() const; ///< a sample: one for each class and label, as a decoder makes them
  std::int64_t keptValues() const;  ///< a sample: all that backward needs but the input
  std::int64_t widest() const;      ///< activation between two layers, or of the last, values a sample
  std::int64_t workValues(std::int64_t rows) const; ///< scratch of the layer that needs most
  std::int64_t mostParameters() const;              ///< of a layer that has no others inside
  std::int64_t realCopies() const;                  ///< of the layer that needs most; see LayerPlan
};

/// Layers [first, last) of the network as stage `index` of `stages`, the activations at its two cuts moved
/// where the labels want them.
StagePlan makeStage(const StrategySection& strategy, const std::vector<LayerPlan>& layers, std::int64_t first,
                    std::int64_t last, int index, int stages);

} // namespace partita
