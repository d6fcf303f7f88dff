#pragma once

#include "partita/nn/layer_numbers.hpp"
#include "partita/plan/layer_plan.hpp"

#include <algorithm>

namespace partita {

/// A small tensor of a layer with its gradient: all of it is in `Real` during a call.
class SmallTensor {
 public:
  SmallTensor() = default; ///< of no values
  SmallTensor(const TypedSpan& values, const TypedSpan& gradient, Real* scratch, Real* gradient_scratch);

  const TypedSpan& stored() const { return _values; }
  Vector values(const ExecSpace& space) const;
  /// To be written, or where `keep` added to; `storeGradient` comes behind it.
  Vector gradient(const ExecSpace& space, bool keep) const;
  void storeGradient(const ExecSpace& space) const;

 private:
  TypedSpan _values, _gradient;
  TypedSpan _real_values, _real_gradient; ///< the same memory in single precision
};

/// The matrix W [rows, columns] of a layer with its gradient. Of numbers of 16 bits a panel of rows is in
/// `Real` at a time, of at most `panel_values`, so that the largest of layers needs no more.
class Weights {
 public:
  Weights() = default;
  Weights(const TypedSpan& values, const TypedSpan& gradient, std::int64_t rows, std::int64_t columns,
          Real* scratch, Real* gradient_scratch);

  const TypedSpan& stored() const { return _values; }
  /// out = in W^T, with in [n, columns], out [n, rows].
  void forward(const ExecSpace& space, const Matrix& in, const Matrix& out) const;
  /// dJ/dW = dJ/dout^T in, or where `keep` added to what is there.
  void addGradient(const ExecSpace& space, bool keep, const Matrix& in, const Matrix& grad_out) const;
  /// dJ/din = dJ/dout W.
  void backward(const ExecSpace& space, const Matrix& grad_out, const Matrix& grad_in) const;

  /// body(first, panel) for each panel of the gradient, beginning with row `first`; it writes all of it, or
  /// where `keep` adds to it.
  template <class Body>
  void changeGradient(const ExecSpace& space, bool keep, const Body& body) const {
    eachPanel(_gradient, _gradient_scratch,
              [&](std::int64_t first, const TypedSpan& stored, const Matrix& panel) {
                if (stored.data != panel.data() && keep) convert(space, stored, panel);
                body(first, panel);
                if (stored.data != panel.data()) convert(space, panel, stored);
              });
  }

 private:
  /// body(first row, the panel as it is stored, the same or room for it in `Real`).
  template <class Body>
  void eachPanel(const TypedSpan& numbers, Real* scratch, const Body& body) const {
    const bool real = numbers.precision == Precision::single;
    const std::int64_t at_once = real ? _rows : panelRows(_rows, _columns);
    for (std::int64_t first = 0; first < _rows; first += at_once) {
      const std::int64_t rows = std::min(at_once, _rows - first);
      const TypedSpan stored = numbers.part(first * _columns, (first + rows) * _columns);
      Real* const values = real ? static_cast<Real*>(stored.data) : scratch;
      body(first, stored, Matrix(values, static_cast<std::size_t>(rows), static_cast<std::size_t>(_columns)));
    }
  }
  template <class Body>
  void readPanels(const ExecSpace& space, const Body& body) const;

  TypedSpan _values, _gradient;
  std::int64_t _rows = 0, _columns = 0;
  Real *_scratch = nullptr, *_gradient_scratch = nullptr;
};

/// A tensor of a layer that computes with `Real` alone, with its gradient.
struct RealTensor {
  Vector values, gradient;
};

/// Hands out the tensors of a layer in their order in the flat buffers, where gaps keep them aligned. All
/// `Weights` of a layer have the front of the scratch in turn; each small tensor has a place of its own at
/// the back.
class LayerTensors {
 public:
  explicit LayerTensors(const LayerNumbers& numbers)
      : _numbers(numbers), _back(static_cast<std::int64_t>(numbers.scratch.size())) {}

  Weights weights(std::int64_t rows, std::int64_t columns);
  Weights table(std::int64_t rows, std::int64_t columns) const; ///< that of the stage's embedding
  SmallTensor small(std::int64_t size);
  RealTensor real(std::int64_t size);

 private:
  LayerNumbers next(std::int64_t size);

  LayerNumbers _numbers;
  std::int64_t _next = 0, _back;
};

} // namespace partita
