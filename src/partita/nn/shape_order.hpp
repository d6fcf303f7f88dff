#pragma once

#include "partita/nn/layer.hpp"
#include "partita/plan/shape.hpp"

namespace partita {

/// A layer whose parameters count the values of an image in the order of its shape, such as a dense layer:
/// it gets its input in this order, see `LayerRules::inShapeOrder`. Copies lie in scratch.
class ShapeOrder : public PlannedLayer {
 public:
  ShapeOrder(const LayerPlan& plan, std::unique_ptr<Layer> inner)
      : PlannedLayer(plan), _inner(std::move(inner)), _in(layoutOf(plan.in)), _out(layoutOf(plan.out)) {}

  void bind(const LayerNumbers& numbers) override { _inner->bind(numbers); }
  bool acceptsHalf() const override { return _inner->acceptsHalf(); }
  void initialise(std::uint64_t seed, const std::string& tensor, const TensorSlice& slice,
                  Real* values) const override {
    _inner->initialise(seed, tensor, slice, values);
  }
  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) override;

 private:
  /// Scratch, in the order of LayerPlan::workValues.
  struct Copies {
    TypedMatrix in, grad_in, out;
    Pass pass; ///< with the rest of the scratch
  };
  Copies copiesIn(const Pass& pass, std::int64_t rows) const;

  std::unique_ptr<Layer> _inner;
  ImageLayout _in, _out;
};

} // namespace partita
