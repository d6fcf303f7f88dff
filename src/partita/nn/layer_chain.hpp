#pragma once

#include "partita/nn/layer.hpp"
#include "partita/plan/parts/hidden_exchange.hpp"

#include <functional>

namespace partita {

class ExchangeLayer;

/// What a chain of layers keeps of one batch between forward and backward. A pipeline keeps several at once.
struct Tape {
  std::vector<TypedMatrix> outputs; ///< one per layer, [capacity, values]
  std::vector<Matrix> saved;        ///< the same
  std::vector<TypedRows> memory;    ///< of the outputs, if the tape owns it
  std::int64_t rows = 0;            ///< of the current batch

  TypedMatrix output(std::size_t layer) const {
    const TypedMatrix& all = outputs[layer];
    return TypedMatrix(all.precision, all.data, rows, all.columns);
  }
  TypedMatrix output() const { return output(outputs.size() - 1); }
};

/// Consecutive layers, over consecutive parts of a flat parameter and a flat gradient buffer.
class LayerChain {
 public:
  /// Called in backward as soon as the gradients in [begin, end) of the flat buffer are final (from the
  /// back).
  using GradientReady = std::function<void(std::int64_t begin, std::int64_t end)>;
  /// Called in forward before a layer reads its parameters, [begin, end) of the flat buffer.
  using ParametersWanted = std::function<void(const ExecSpace& space, std::int64_t begin, std::int64_t end)>;

  explicit LayerChain(const std::vector<LayerPlan>& plans);

  std::int64_t storedValues() const { return _begin.back(); }
  std::int64_t statistics() const { return _statistics_begin.back(); }
  bool empty() const { return _layers.empty(); }
  std::int64_t inputs() const { return _layers.front()->inputs(); }
  Precision inputPrecision() const { return _input; } ///< in which the first layer reads its input
  std::int64_t outputs() const { return _layers.back()->outputs(); }

  void bind(const LayerNumbers& numbers);
  void bindStatistics(const Vector& statistics);
  void initialiseStatistics(Real* values) const;

  Tape makeTape(std::int64_t capacity) const;
  /// A tape for `rows` samples in memory that the caller owns; the last output goes to `out` if that is not
  /// empty. Advances `memory` by the amount used, see `alignedRoom`.
  Tape tapeIn(Real*& memory, std::int64_t rows, const TypedMatrix& out) const;

  /// in [rows, inputs()] -> output [rows, outputs()], which lives on the tape. `in` may be `Real` where
  /// layers read 16 bits: it is then converted at the front of the scratch.
  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, Tape& tape,
               const ParametersWanted& wanted = {}) const;
  /// Does a backward pass leave dJ/doutput, stored like the output, as it is?
  bool keepsGradient() const {
    return _stored.back() == parameterPrecision() && _layers.back()->keepsGradient();
  }
  Precision parameterPrecision() const { return _numbers.parameters.precision; }
  /// dJ/doutput (may be overwritten) -> the flat gradients, and dJ/din if `grad_in`, stored like the input of
  /// the first layer, is not empty. `grad_out` may be `Real` where the last layer takes 16 bits. `work`: two
  /// buffers, each for the widest activation inside; `grad_out` may be one of them.
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const Tape& tape,
                const TypedMatrix& grad_out, const TypedMatrix& grad_in, const Vector (&work)[2],
                const GradientReady& ready = {}) const;

 private:
  void unpack(const ExecSpace& space, std::size_t layer, bool gradients) const;
  void pack(const ExecSpace& space, std::size_t layer) const;
  /// Of the backward pass of a layer.
  struct Operands {
    TypedMatrix in, out;
    Matrix saved;
    TypedMatrix grad_out, grad_in;
  };
  bool backwardLayer(const ExecSpace& space, const Pass& pass, std::size_t layer, const Operands& operands,
                     const GradientReady& ready) const;
  void forwardWithHalo(const ExecSpace& space, const Pass& pass, std::size_t layer, const Matrix& in,
                       const Matrix& needed, const Matrix& out, const Matrix& saved) const;
  void sendInputGradient(const ExecSpace& space, const Pass& pass, std::size_t layer,
                         const Matrix& gradient) const;
  void handOn(const ExecSpace& space, std::size_t layer, const GradientReady& ready) const;
  LayerNumbers copyOf(std::size_t layer) const;
  TypedMatrix storedInput(const ExecSpace& space, Pass& pass, const TypedMatrix& in) const;
  TypedMatrix storedGradient(const ExecSpace& space, const Pass& pass, const TypedMatrix& gradient,
                             void* room) const;

  std::vector<std::unique_ptr<Layer>> _layers;
  std::vector<const ExchangeLayer*> _exchanges; ///< the exchanges in `_layers`; null: other layers
  std::vector<Precision> _stored;               ///< of each layer's output
  Precision _input = Precision::single;
  std::vector<bool> _copied; ///< are a layer's numbers 16-bit, and does it need them as `Real`?
  std::vector<std::vector<ParameterShape>> _shapes; ///< of each layer's own tensors
  std::vector<bool> _partial_output;   ///< of each layer: must it be added up over the parts of the stage?
  std::vector<bool> _has_interior;     ///< and can some places of it be computed before a halo arrives?
  std::vector<HiddenExchange> _hidden; ///< during the gradients of a layer's parameters
  std::vector<std::int64_t> _begin;    ///< first value of each layer in the flat buffers, and the end
  std::vector<std::int64_t> _statistics_begin; ///< the same for statistics
  std::size_t _first_trained;                  ///< nothing before it needs a gradient
  LayerNumbers _numbers;
};

} // namespace partita
