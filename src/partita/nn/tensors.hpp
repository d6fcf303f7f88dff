#pragma once

#include "partita/core/error.hpp"
#include "partita/core/typed_span.hpp"
#include "partita/kernels/products.hpp"
#include "partita/plan/layer_plan.hpp"

#include <algorithm>

namespace partita {

/// Parameters and gradients of some consecutive layers, in the precision in which they are stored. All layers
/// share two scratch buffers. There 16-bit numbers are converted to `Real` in each call; if products take
/// 16-bit numbers directly, their other operand is rounded there instead.
struct LayerNumbers {
  TypedSpan parameters, gradients;
  TypedSpan table = {},
            table_gradient = {}; ///< of the stage's embedding, whichever layers these are; or empty
  Vector scratch = {}, gradient_scratch = {}; ///< each as long as any layer's `LayerPlan::halfScratch`
  Precision exact_in = Precision::single;     ///< in which parameters and activations are exact

  bool packed() const { return parameters.precision != Precision::single; }
  LayerNumbers part(std::int64_t begin, std::int64_t end) const {
    return {parameters.part(begin, end),
            gradients.part(begin, end),
            table,
            table_gradient,
            scratch,
            gradient_scratch,
            exact_in};
  }
  Vector realParameters() const { return real(parameters); } ///< only if they are not packed
  Vector realGradients() const { return real(gradients); }

 private:
  static Vector real(const TypedSpan& numbers) {
    PARTITA_REQUIRE(numbers.precision == Precision::single, "numbers of 16 bits are no Real");
    return Vector(static_cast<Real*>(numbers.data), numbers.size);
  }
};

/// A small tensor of a layer with its gradient. All of it is in `Real` during a call.
class SmallTensor {
 public:
  SmallTensor() = default; ///< without values
  SmallTensor(const TypedSpan& values, const TypedSpan& gradient, Real* scratch, Real* gradient_scratch);

  const TypedSpan& stored() const { return _values; }
  const TypedSpan& storedGradient() const { return _gradient; } ///< to be written as it is stored
  Vector values(const ExecSpace& space) const;
  /// The epilogue that adds it to the result of a product.
  ProductEpilogue asBias(const ExecSpace& space, Precision of_result, bool relu = false) const;
  /// To be written, or with `keep` added to; `storeGradient` must follow.
  Vector gradient(const ExecSpace& space, bool keep) const;
  void storeGradient(const ExecSpace& space) const;

 private:
  TypedSpan _values, _gradient;
  TypedSpan _real_values, _real_gradient; ///< the same memory in single precision
};

/// The matrix W [rows, columns] of a layer with its gradient. If they are 16-bit, products use them
/// as operands without conversion; the other operand is rounded to the same type unless it is
/// already stored like that. Gradients whose rows begin at any place are copied to rows at
/// multiples of `padding`, which device libraries want. If products cannot take 16-bit numbers
/// (`multipliesDirectly`), one panel of rows at a time, of at most `panel_values`, is converted to
/// `Real`, and so are as many rows of 16-bit activations (`rowsInReal`).
class Weights {
 public:
  Weights() = default;
  Weights(const TypedSpan& values, const TypedSpan& gradient, std::int64_t rows, std::int64_t columns,
          Real* scratch, Real* gradient_scratch, std::int64_t padding = row_padding);

  const TypedSpan& stored() const { return _values; }
  bool direct() const; ///< are its 16-bit numbers operands of products without conversion?
  /// out = in W^T, with in [n, columns], out [n, rows]; then the epilogue.
  void forward(const ExecSpace& space, const TypedMatrix& in, const TypedMatrix& out,
               const ProductEpilogue& epilogue = {}) const;
  /// Can `addGradient` compute sums of columns more cheaply than a separate kernel?
  bool fusesSums(bool keep) const { return !keep && partita::fusesSums(_values.precision); }
  /// dJ/dW = dJ/dout^T in; with `keep` it is added to what is there. `sums`, if not empty, gets the sums of
  /// the columns of dJ/dout, stored like W.
  void addGradient(const ExecSpace& space, bool keep, const TypedMatrix& in, const TypedMatrix& grad_out,
                   const TypedSpan& sums = {}) const;
  /// dJ/din = dJ/dout W, if `grad_in` is not empty. `follows`: immediately after addGradient with the same
  /// gradient, which has rounded it.
  void inputGradient(const ExecSpace& space, const TypedMatrix& grad_out, const TypedMatrix& grad_in,
                     bool follows) const;

  /// body(first, panel) for each panel of the gradient, beginning with row `first`; it writes all of it, or
  /// with `keep` adds to it.
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
  /// body(first row, the panel as stored, the same panel or room for it in `Real`).
  template <class Body>
  void eachPanel(const TypedSpan& numbers, Real* scratch, const Body& body) const {
    const bool real = numbers.precision == Precision::single;
    const std::int64_t at_once = real ? _rows : panelRows(_rows, _columns);
    for (std::int64_t first = 0; first < _rows; first += at_once) {
      const std::int64_t rows = std::min(at_once, _rows - first);
      const TypedSpan stored = numbers.part(first * _columns, (first + rows) * _columns);
      Real* const values = real ? static_cast<Real*>(stored.data) : scratch;
      body(first, stored, Matrix(values, rows, _columns));
    }
  }
  template <class Body>
  void readPanels(const ExecSpace& space, const Body& body) const;
  bool fits(const TypedMatrix& values) const;
  TypedMatrix paddedIn(Real* room, std::int64_t rows, std::int64_t columns) const;
  TypedMatrix rowsOf(const TypedSpan& numbers, std::int64_t first, std::int64_t count) const;
  template <class Body>
  void eachRoundedPart(const ExecSpace& space, const TypedMatrix& values, Real* room, bool there,
                       const Body& body) const;
  template <class Body>
  void eachRoundedRows(const ExecSpace& space, const TypedMatrix& values, Real* room, bool there,
                       const Body& body) const;
  std::int64_t rowsAtOnce(const TypedMatrix& a, const TypedMatrix& b) const;

  TypedSpan _values, _gradient;
  std::int64_t _rows = 0, _columns = 0, _padding = row_padding;
  Real *_scratch = nullptr, *_gradient_scratch = nullptr;
};

/// A tensor, with its gradient, whose kernels read and write the numbers as they are stored.
struct StoredTensor {
  TypedSpan values, gradient;

  template <class Stored>
  const Stored* valuesAs() const {
    return static_cast<const Stored*>(values.data);
  }
  template <class Stored>
  Stored* gradientAs() const {
    return static_cast<Stored*>(gradient.data);
  }
};

/// A tensor, with its gradient, of a layer that computes with `Real` only.
struct RealTensor {
  Vector values, gradient;
};

/// Hands out the tensors of a layer in their order in the flat buffers, where gaps keep them aligned. All
/// `Weights` of a layer use the front of the scratch in turn; each small tensor has its own place at the
/// back.
class LayerTensors {
 public:
  explicit LayerTensors(const LayerNumbers& numbers) : _numbers(numbers), _back(numbers.scratch.size()) {}

  Weights weights(std::int64_t rows, std::int64_t columns);
  Weights table(std::int64_t rows, std::int64_t columns) const; ///< the table of the stage's embedding
  SmallTensor small(std::int64_t size);
  StoredTensor stored(std::int64_t size);
  RealTensor real(std::int64_t size);

 private:
  LayerNumbers next(std::int64_t size);

  LayerNumbers _numbers;
  std::int64_t _next = 0, _back;
};

} // namespace partita
