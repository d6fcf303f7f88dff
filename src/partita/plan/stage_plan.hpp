#pragma once

#include "partita/plan/layer_plan.hpp"

#include <array>

namespace partita {

/// The effort of training any range of consecutive layers. Each query takes constant time, because a search
/// over cuts makes many of them.
class TrainingEffort {
 public:
  explicit TrainingEffort(const std::vector<LayerPlan>& layers);

  /// Per sample, for layers [first, last) trained alone: nothing before the first layer with parameters needs
  /// a gradient.
  Effort of(std::int64_t first, std::int64_t last) const;
  /// The same if the layers before `first` need a gradient.
  Effort withInputGradient(std::int64_t first, std::int64_t last) const;
  /// Never more than either of these, and it does not decrease if there are more layers: without gradients
  /// inside a group whose own input needs none.
  Effort atLeast(std::int64_t first, std::int64_t last) const;

 private:
  std::vector<Effort> _own;                ///< sums of forward and weight gradients over layers [0, i)
  std::vector<Effort> _input;              ///< the same of input gradients
  std::vector<Effort> _within;             ///< input gradients inside a group whose own input needs none
  std::vector<std::int64_t> _next_trained; ///< the first layer with parameters from i on
};

/// A tensor of a flat buffer.
struct StageTensor {
  std::string layer, name;           ///< "layer3.dense", "weight"
  std::vector<std::int64_t> extents; ///< of the whole tensor
  std::int64_t offset = 0, size = 0; ///< in values, of what this rank has
  /// The slices that it has, one after another: the whole tensor, unless other ranks share the stage.
  std::vector<TensorSlice> slices;
  bool owned = true; ///< does this rank write them? Otherwise another part of the stage has the same ones
};

/// The parameters of some layers in their flat buffer. Offsets are multiples of `tensor_granule`.
std::vector<StageTensor> parameterTensors(const std::vector<LayerPlan>& layers);
/// The statistics of some layers in their flat buffer, without gaps, because no matrix product reads them.
std::vector<StageTensor> statisticTensors(const std::vector<LayerPlan>& layers);
/// Null if there is none of that name.
const StageTensor* findTensor(const std::vector<StageTensor>& tensors, const std::string& layer,
                              const std::string& name);

/// A part of a head that is refreshed, while the network trains, with parameters of a later stage.
struct ParameterCopy {
  enum class Kind { first_layer, last_weights } kind;
  int from_stage = 0, to_stage = 0;
  std::int64_t from = 0, to = 0, size = 0; ///< places in the flat buffers of the two stages, in values
  std::int64_t every = 0;                  ///< steps between two refreshes
  double keep = 0.0;                       ///< weight of the old values; 1 - keep is that of the new ones
};

/// What consecutive layers need: sums over them, and the largest of them.
struct LayerSizes {
  std::int64_t stored = 0, statistics = 0, kept = 0;   ///< values, see StagePlan
  std::int64_t widest = 0, work = 0, half_scratch = 0; ///< the largest
};

/// A stage: consecutive layers. Its parts and replicas may be on several ranks.
struct StagePlan {
  int index = 0, stages = 1;
  std::vector<LayerPlan>
      layers; ///< begins with an `activation` layer if the cut before it is matched before the activation
  /// What layers in the middle need that `layers` does not contain, see `StageMaker::ends`. Only memory
  /// counts them; `work` and `half_scratch` are for one number of samples.
  LayerSizes left_out;

  std::vector<LayerPlan>
      head; ///< predicts the classes from the stage's output and learns with it; empty: none
  /// Reconstructs the stage's input from its output, and learns with it; empty: none. The input is first
  /// averaged over windows of this side; 0: no window fits.
  std::vector<LayerPlan> decoder;
  std::int64_t decoder_window = 1;
  double reconstruct = 0.0; ///< weight of the reconstruction in the stage's own loss
  double transport = 0.0;   ///< weight of what residual layers add to their input, see `Pass`
  std::int64_t copied = 0;  ///< leading layers of the head that are copies of the next stage's first layers
  std::vector<ParameterCopy> copies; ///< of its own parameters in other heads, and of others' in its head
  bool entrance = false;             ///< do `layers` begin with the activation from before the cut?
  bool real_input = true;            ///< may its input be `Real` where layers read 16 bits?
  bool has_loss = true;              ///< does a loss read its output?
  bool loss_takes_half = false;      ///< does its loss read 16-bit numbers as they are stored?
  bool divisible_loss = false;       ///< last stage: can each of its parts have some of the classes?
  ClassParts class_parts;            ///< the classes of this part of it
  std::array<int, 3> place_grid{
      1, 1, 1};          ///< number of ranges of depth, rows and columns among its parts, see `placeGridOf`
  bool sequence = false; ///< does the network predict one class per position of a sequence?
  std::int64_t positions = 1; ///< labels per sample: one, or one per position of such a sequence

  bool first() const { return index == 0; }
  bool last() const { return index + 1 == stages; }
  /// Index of its first and last layer in the deck, without its entrance.
  std::int64_t firstLayer() const { return layers[entrance ? 1 : 0].index; }
  std::int64_t lastLayer() const { return layers.back().index; }
  std::int64_t inputs() const { return layers.front().inputs(); }
  std::int64_t outputs() const { return layers.back().outputs(); }
  /// Values of a label of the cut after it: the units of the cut, or the inputs of learned labels.
  std::int64_t labelWidth() const { return (head.empty() ? outputs() : head.back().inputs()) / positions; }
  /// Does a label of the cut after it have one value per unit of the cut? Not if a head of layers or an
  /// average over positions lies between them.
  bool labelsCountUnits() const { return head.size() <= 1; }
  std::vector<LayerPlan> allLayers() const; ///< `layers`, `decoder`, `head`: the order of the flat buffers
  std::int64_t parameters() const { return countParameters(layers); } ///< without the head
  std::int64_t storedValues() const; ///< of the flat buffer of parameters, and of others like it
  std::int64_t statistics() const;   ///< values of state that no gradient reaches
  /// Per sample, without the head; with the gradient of its input?
  Effort trainEffort(bool input_gradient) const;
  std::int64_t labelValues() const;      ///< per sample: one per class and label, as a decoder makes them
  std::int64_t keptValues() const;       ///< per sample: what backward needs, without the input and the head
  std::int64_t storedBeforeHead() const; ///< the part of `storedValues` before the head
  std::int64_t decoderValues() const;    ///< per sample: what the reconstruction needs
  /// How the stage's input lies in memory, if the decoder reconstructs it as a vector in the order of its
  /// shape.
  ImageLayout targetLayout() const;
  bool copiesTarget() const; ///< is the input averaged or reordered before the decoder's output is compared?
  std::int64_t headValues() const; ///< per sample: the same for the head
  std::int64_t widest() const;     ///< per sample, in `Real`: most room of a gradient inside or at the end
  bool copiesInput() const;        ///< does a pass convert an input in `Real` to 16 bits?
  bool copiesOutput() const;       ///< does a loss need a copy of its output in `Real`?
  std::int64_t workValues(std::int64_t rows) const;  ///< scratch of the layer that needs most of it
  std::int64_t mostParameters() const;               ///< largest number in a layer that is not a group
  std::int64_t halfScratch(std::int64_t rows) const; ///< of the layer that needs most; see LayerPlan
};

/// Number of layers with weights, also inside groups.
std::int64_t weightLayers(const std::vector<LayerPlan>& layers);

} // namespace partita
