#include "partita/nn/shape_order.hpp"

#include "partita/core/image_layout.hpp"

namespace partita {

ShapeOrder::Copies ShapeOrder::copiesIn(const Pass& pass, std::int64_t rows) const {
  Copies copies;
  Real* next = pass.work.data();
  const auto take = [&](std::int64_t values, Precision precision) {
    const TypedMatrix matrix(precision, next, rows, values);
    next += rows * alignedRoom(roomOf(values, precision));
    return matrix;
  };
  copies.in = take(inputs(), _plan.inputPrecision());
  copies.grad_in = take(inputs(), _plan.inputPrecision());
  if (!_out.trivial()) copies.out = take(outputs(), _plan.outputPrecision());
  copies.pass = pass;
  copies.pass.work = Vector(next, pass.work.size() - static_cast<std::size_t>(next - pass.work.data()));
  return copies;
}

void ShapeOrder::forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                         const TypedMatrix& out, const Matrix& saved) {
  const Copies copies = copiesIn(pass, in.rows);
  toShapeOrder(space, _in, in, copies.in);
  if (_out.trivial()) return _inner->forward(space, copies.pass, copies.in, out, saved);
  _inner->forward(space, copies.pass, copies.in, copies.out, saved);
  fromShapeOrder(space, _out, copies.out, out);
}

/// `out` stays in the order of memory: only norms output images, and they do not read it again.
void ShapeOrder::backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                          const TypedMatrix& out, const Matrix& saved, const TypedMatrix& grad_out,
                          const TypedMatrix& grad_in) {
  Copies copies = copiesIn(pass, in.rows);
  const bool wanted = grad_in.size() > 0;
  const auto put_back = [&] { fromShapeOrder(space, _in, copies.grad_in, grad_in); };
  const std::function<void()> report = [&] {
    put_back();
    pass.reportInputGradient();
  };
  if (pass.inputGradientFirst()) copies.pass.input_gradient = &report;
  toShapeOrder(space, _in, in, copies.in);
  if (!_out.trivial()) toShapeOrder(space, _out, grad_out, copies.out);
  _inner->backward(space, copies.pass, copies.in, out, saved, _out.trivial() ? grad_out : copies.out,
                   wanted ? copies.grad_in : TypedMatrix());
  if (wanted && !pass.inputGradientFirst()) put_back();
}

} // namespace partita
