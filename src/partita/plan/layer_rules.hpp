#pragma once

#include "partita/config/layer_table.hpp"
#include "partita/plan/layer_plan.hpp"
#include "partita/plan/window_plan.hpp"

#include <optional>

namespace partita {

/// What the cost model of plan/cost needs to know about the arithmetic of a layer.
enum class LayerWork {
  elementwise,   ///< activations, dropout, and layers that only change the shape
  product,       ///< each output is a sum over all inputs
  convolution,   ///< each output is a sum over the windows of all channels
  pooling,       ///< each output follows from a window of its channel
  normalisation, ///< in place
  attention,
  other ///< embeddings
};

/// How the output values of a layer follow from its input.
enum class OutputValues {
  computed,
  rearranged, ///< they are the input's values
  chosen      ///< they are some of the input's values, each the largest of several
};

/// A layer as a step of the network in another program; see `Operation`.
struct LayerStep {
  struct Setting {
    std::string name;                   ///< the name in ONNX: "strides", "epsilon"
    std::vector<std::int64_t> integers; ///< empty: the setting is a real number
    double real = 0.0;
  };

  std::string operation; ///< "convolution"; empty: none, or only a change of shape and an activation
  Shape in, out;         ///< of a sample, or of a row of it; empty: any
  std::vector<Setting> settings{}; ///< what the operation needs besides the layer's tensors
};

/// Everything the program asks about one type of layer. The answers follow from `spec` and `in` (and from
/// `body` and `shortcut` of a group). The defaults are those of an element-wise layer without parameters.
class LayerRules {
 public:
  virtual ~LayerRules() = default;

  // Shapes.

  /// Extents of the output. Throws UserError, beginning with `plan.entry`, if the layer does not fit.
  virtual Shape output(const LayerPlan& plan) const { return plan.in; }
  virtual std::vector<ParameterShape> parameters(const LayerPlan&) const { return {}; }
  /// State that training updates and no gradient reaches.
  virtual std::vector<ParameterShape> statistics(const LayerPlan&) const { return {}; }
  /// Called for the last layer of a network: sets a width that the deck omits to the number of classes.
  virtual void takeClasses(LayerSpec&, std::int64_t classes) const { (void)classes; }

  // Costs per sample.

  virtual double forwardFlops(const LayerPlan&) const { return 0.0; }
  virtual double weightFlops(const LayerPlan& plan) const {
    return parameters(plan).empty() ? 0.0 : forwardFlops(plan);
  }
  virtual double inputFlops(const LayerPlan& plan) const { return forwardFlops(plan); }
  /// The part of these two that repeats products of the forward pass.
  virtual double recomputedFlops(const LayerPlan&) const { return 0.0; }
  /// The default reads the input and writes the output; the backward pass reads the output and its gradient
  /// and writes the gradient of the input.
  virtual Moves moves(const LayerPlan& plan) const;
  virtual std::int64_t savedValues(const LayerPlan&) const { return 0; }
  virtual std::int64_t workValues(const LayerPlan&, std::int64_t rows) const {
    (void)rows;
    return 0;
  }
  virtual std::int64_t halfScratch(const LayerPlan& plan, std::int64_t rows) const {
    (void)rows;
    return plan.storedValues();
  }
  virtual LayerWork work() const { return LayerWork::elementwise; }
  /// Does each channel of the output follow from the same channel of the input?
  virtual bool channelwise() const {
    return work() == LayerWork::elementwise || work() == LayerWork::pooling;
  }
  /// Do its parameters or sums count the values of an image in the order of the shape, see `ImageLayout`?
  virtual bool inShapeOrder() const { return false; }
  /// Its windows over an image or a volume; none if it has no windows.
  virtual std::optional<WindowPlan> windows(const LayerPlan&) const { return {}; }

  // Its role in the network.

  /// {tokens, width} of the table at the start of its parameters, which a tied layer shares; empty: none.
  virtual Shape table(const LayerPlan&) const { return {}; }
  /// Does it use that table as its weights?
  virtual bool tied(const LayerPlan&) const { return false; }
  /// Groups: is the input, or the output of the shortcut, added to the output of the layers inside?
  virtual bool residual() const { return false; }
  virtual OutputValues outputValues() const { return OutputValues::computed; }
  /// Is the output, before the activation, linear in the first parameter tensor, and is the second, if there
  /// is one, added to each unit or channel? A stage that ends with such a layer can start at the mean label.
  virtual bool scalesOutput(const LayerPlan&) const { return false; }
  /// Does it compute its statistics over the batch of all replicas?
  virtual bool acrossReplicas(const LayerPlan&) const { return false; }

  /// What an export writes. Not called for groups: the layers inside them are exported instead.
  virtual LayerStep step(const LayerPlan&) const { return {"", {}, {}}; }
};

/// Total width of the attention heads that this rank has.
std::int64_t widthOfHeads(const LayerPlan& plan);

/// The rules of all layer types; the table is in plan/layers/table.cpp.
const LayerTable<const LayerRules*>& layerRules();

} // namespace partita
