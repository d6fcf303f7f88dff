#pragma once

#include "partita/config/layer_table.hpp"
#include "partita/nn/tensors.hpp"
#include "partita/plan/layer_plan.hpp"
#include "partita/plan/tensor_slice.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace partita {

class PartExchange;
class ReplicaReduce;

/// Which places of its output a layer computes in a forward pass: all of them, or in two calls first those of
/// `LayerPart::interior`, then the rest.
enum class OutputPlaces { all, interior, rest };

/// What a layer must know about the current call.
struct Pass {
  bool training = true;       ///< random masks and batch statistics; false: their inference forms
  bool accumulate = false;    ///< add to the gradients (later microbatches) instead of overwriting them
  std::uint64_t seed = 0;     ///< of the random numbers a layer draws; each stage sets its own
  std::uint64_t step = 0;     ///< counter of the random numbers a layer draws
  std::int64_t first_row = 0; ///< place of row 0 in the whole batch, over all replicas and microbatches
  /// Backward: weight per sample of a residual layer's penalty, half the mean square of its branch's output.
  DeviceFactor transport = 0;
  OutputPlaces outputs = OutputPlaces::all;
  bool again = false; ///< repeats an earlier forward pass: statistics are not counted twice
  const ReplicaReduce* replicas = nullptr;                ///< null: there is only one replica
  PartExchange* parts = nullptr;                          ///< null: the stage has only one part
  const std::function<void()>* gradients_final = nullptr; ///< see `reportGradientsFinal`
  const std::function<void()>* input_gradient = nullptr;  ///< see `reportInputGradient`
  Vector work; ///< scratch, as long as the layer's `workValues`; free again after the call

  /// Called by a backward pass that computes dJ/din after the parameters' gradients: these may be sent
  /// already.
  void reportGradientsFinal() const {
    if (gradients_final != nullptr) (*gradients_final)();
  }
  /// Does a backward pass have to compute dJ/din before the parameters' gradients? Only layers that
  /// have a `hiddenExchange` are asked; they call `reportInputGradient` in between, and dJ/din travels to
  /// other parts while they compute the rest.
  bool inputGradientFirst() const { return input_gradient != nullptr; }
  void reportInputGradient() const { (*input_gradient)(); }

  /// Scratch at the end, which a layer leaves alone while its dJ/din travels.
  Vector workAtEnd(std::int64_t values) const {
    return Vector(work.data() + work.size() - values, static_cast<std::size_t>(values));
  }
};

/// A layer maps [rows, inputs] to [rows, outputs]. It owns no memory: the stage binds its part of the flat
/// parameter and gradient buffers and passes in what is saved per batch, so that many batches can be in
/// flight at once.
class Layer {
 public:
  virtual ~Layer() = default;

  virtual std::int64_t inputs() const = 0;  ///< values per sample
  virtual std::int64_t outputs() const = 0; ///< values per sample
  virtual std::string name() const = 0;     ///< place in the whole network: "layer3.dense"

  /// Values per sample that forward leaves in `saved` for backward, besides input and output.
  virtual std::int64_t savedValues() const { return 0; }

  /// Takes this layer's part of the flat buffers, `LayerPlan::storedValues` long; LayerTensors divides it.
  virtual void bind(const LayerNumbers& numbers) { (void)numbers; }
  /// May these buffers be 16-bit? Otherwise they are converted for the layer, as a whole, before and after
  /// each call.
  virtual bool acceptsHalf() const { return false; }
  /// Does a backward pass round dJ/dout, given as `Real`, wherever it reads it?
  virtual bool roundsGradient(bool accumulate) const {
    (void)accumulate;
    return false;
  }
  /// Does a backward pass leave dJ/dout, stored like the parameters, as it is?
  virtual bool keepsGradient() const { return false; }
  /// Starting values of a slice of one of its tensors. They depend only on (seed, place in the network, place
  /// in the tensor). Zeros by default.
  virtual void initialise(std::uint64_t seed, const std::string& tensor, const TensorSlice& slice,
                          Real* values) const {
    (void)seed;
    (void)tensor;
    std::fill_n(values, slice.size(), Real(0));
  }

  /// Takes this layer's part of the state that forward passes update during training and that has
  /// no gradient.
  virtual void bindStatistics(const Vector& statistics) { (void)statistics; }
  virtual void initialiseStatistics(Real* values) const { (void)values; }

  /// in [rows, inputs] -> out [rows, outputs], saved [rows, savedValues()]. Input and output are stored in
  /// the precisions of the plan, see `LayerPlan::activations`.
  virtual void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                       const TypedMatrix& out, const Matrix& saved) = 0;
  /// Computes the parameters' gradients and dJ/din from dJ/dout. `grad_out` may be overwritten; an empty
  /// `grad_in` means that dJ/din is not needed. A gradient is stored like the values that it belongs to.
  virtual void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                        const TypedMatrix& out, const Matrix& saved, const TypedMatrix& grad_out,
                        const TypedMatrix& grad_in) = 0;
};

/// A layer of the network, with the sizes of its plan.
class PlannedLayer : public Layer {
 public:
  explicit PlannedLayer(LayerPlan plan) : _plan(std::move(plan)) {}

  std::int64_t inputs() const override { return _plan.inputs(); }
  std::int64_t outputs() const override { return _plan.outputs(); }
  std::string name() const override { return _plan.name(); }
  std::int64_t savedValues() const override { return _plan.savedValues(); }

 protected:
  std::int64_t channels() const { return _plan.in.front(); } ///< of an image or a volume

  LayerPlan _plan;
};

using LayerFactory = std::unique_ptr<Layer> (*)(const LayerPlan& plan);

/// Creates the layers of each type.
const LayerTable<LayerFactory>& layerClasses();

std::unique_ptr<Layer> makeLayer(const LayerPlan& plan);

} // namespace partita
