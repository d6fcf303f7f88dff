#pragma once

#include "partita/nn/layer.hpp"
#include "partita/plan/partition.hpp"

#include <functional>

namespace partita {

/// A tensor of a stage's flat parameter buffer.
struct StageTensor {
  std::string layer, name; ///< "layer3.dense", "weight"
  std::vector<std::int64_t> extents;
  std::int64_t offset = 0, size = 0; ///< in values
};

/// What one batch leaves behind in a stage between forward and backward. A pipeline keeps several at once.
struct Tape {
  std::vector<Matrix> outputs, saved; ///< one of each a layer, [capacity, values]
  std::int64_t rows = 0;              ///< of the batch now on it
  Matrix output() const { return topRows(outputs.back(), rows); }
};

/// Consecutive layers over ONE flat parameter buffer and ONE flat gradient buffer: an optimiser is one
/// kernel, an all-reduce one call, a checkpoint one data set.
class Stage {
 public:
  /// Called in backward as soon as the gradients in [begin, end) of the flat buffer are final (from the
  /// back).
  using GradientReady = std::function<void(std::int64_t begin, std::int64_t end)>;

  /// `values`: the starting parameters, see `initialValues`. `capacity`: rows of the largest batch.
  Stage(const StagePlan& plan, const std::vector<Real>& values, std::int64_t capacity);
  Stage(Stage&&) = default; // a copy would share the buffers

  /// Starting parameters of a stage as a function of (seed, place of each layer in the whole network) alone.
  static std::vector<Real> initialValues(const StagePlan& plan, std::uint64_t seed);

  const StagePlan& plan() const { return _plan; }
  const Vector& parameters() const { return _parameters; }
  const Vector& gradients() const { return _gradients; }
  const std::vector<StageTensor>& tensors() const { return _tensors; }
  std::int64_t inputs() const { return _layers.front()->inputs(); }
  std::int64_t outputs() const { return _layers.back()->outputs(); }

  Tape makeTape(std::int64_t capacity) const;

  /// in [rows, inputs()] -> output [rows, outputs()], which lives on the tape.
  Matrix forward(const ExecSpace& space, const Pass& pass, const Matrix& in, Tape& tape);

  /// The work buffer where a loss leaves dJ/doutput for `backward`, [rows, outputs()].
  Matrix outputGradient(std::int64_t rows) const;

  /// dJ/doutput (overwritten) -> the flat gradients, and dJ/din where `grad_in` is not empty.
  void backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Tape& tape,
                const Matrix& grad_out, const Matrix& grad_in, const GradientReady& ready = {});

 private:
  Matrix workGradient(std::size_t which, std::int64_t rows, std::int64_t columns) const;

  StagePlan _plan;
  std::vector<std::unique_ptr<Layer>> _layers;
  std::vector<std::int64_t> _begin; ///< first value of each layer in the flat buffers, and the end
  std::vector<StageTensor> _tensors;
  std::size_t _first_trained; ///< nothing in front of it wants a gradient
  Vector _parameters, _gradients;
  Vector _work[2]; ///< gradients of activations on their way back, in turn
};

} // namespace partita
