#include "partita/nn/exchange.hpp"

namespace partita {

namespace {

/// One row per item.
Matrix perItem(const Matrix& matrix, std::int64_t items) {
  return Matrix(matrix.data(), matrix.extent(0) * items, matrix.extent(1) / items);
}

} // namespace

void ExchangeLayer::forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                            const TypedMatrix& out, const Matrix&) {
  const ExchangePlan& plan = *_plan.exchange;
  const Matrix from = perItem(in.real(), plan.items), to = perItem(out.real(), plan.items);
  switch (plan.kind) {
  case PartStep::gather_slice:
  case PartStep::gather_reduce:
    return pass.parts->gather(space, plan, from, to, pass.work);
  case PartStep::slice_gather:
    return pass.parts->slice(space, plan, from, to);
  case PartStep::reduce_gather:
    return pass.parts->reduce(space, plan, from, to, pass.work);
  case PartStep::halo:
    return halo(space, pass, in.real(), out.real(), Travel::whole);
  }
}

void ExchangeLayer::halo(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                         Travel travel) const {
  const ExchangePlan& plan = *_plan.exchange;
  pass.parts->haloForward(space, plan, in, out, pass.workAtEnd(_plan.workValues(in.extent(0))), travel);
}

void ExchangeLayer::backward(const ExecSpace& space, const Pass& pass, const TypedMatrix&, const TypedMatrix&,
                             const Matrix&, const TypedMatrix& grad_out, const TypedMatrix& grad_in) {
  if (grad_in.size() > 0) backward(space, pass, grad_out.real(), grad_in.real(), Travel::whole);
}

void ExchangeLayer::backward(const ExecSpace& space, const Pass& pass, const Matrix& grad_out,
                             const Matrix& grad_in, Travel travel) const {
  const ExchangePlan& plan = *_plan.exchange;
  const Matrix from = perItem(grad_out, plan.items), to = perItem(grad_in, plan.items);
  const Vector work = pass.workAtEnd(_plan.workValues(grad_out.extent(0)));
  switch (plan.kind) {
  case PartStep::slice_gather:
  case PartStep::reduce_gather:
    return pass.parts->gather(space, plan, from, to, work, travel);
  case PartStep::gather_slice:
    return pass.parts->slice(space, plan, from, to);
  case PartStep::gather_reduce:
    return pass.parts->reduce(space, plan, from, to, work, travel);
  case PartStep::halo:
    return pass.parts->haloBackward(space, plan, from, to, work, travel);
  }
}

} // namespace partita
