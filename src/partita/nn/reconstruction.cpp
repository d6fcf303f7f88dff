#include "partita/nn/reconstruction.hpp"

#include "partita/core/image_layout.hpp"
#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/plan/layer_rules.hpp"
#include "partita/plan/layers/table.hpp"

namespace partita {

namespace {

/// dJ/dD(out), in place of D(out).
struct ErrorGradient {
  Matrix decoded, target;
  KernelFactor factor;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const {
    decoded(i, j) = factor.value() * (decoded(i, j) - target(i, j));
  }
};

std::unique_ptr<Layer> averageOf(const StagePlan& plan) {
  if (plan.decoder_window == 1) return nullptr;
  LayerPlan average;
  average.spec = averagePool(plan.decoder_window);
  average.place = plan.decoder.front().place;
  average.in = plan.layers.front().in;
  average.out = average.rules().output(average);
  return makeLayer(average);
}

Matrix makeRows(const char* label, std::int64_t rows, std::int64_t columns) {
  return makeMatrix(std::string("partita::Reconstruction::") + label, rows, columns);
}

} // namespace

Reconstruction::Reconstruction(const StagePlan& plan, std::int64_t capacity)
    : _decoder(plan.decoder), _average(averageOf(plan)), _layout(plan.targetLayout()),
      _tape(_decoder.makeTape(capacity)),
      _target(plan.copiesTarget() ? makeRows("target", capacity, _decoder.outputs()) : Matrix()),
      _grad_out(makeRows("grad_out", capacity, plan.outputs())) {}

/// An input of 16 bits is first converted in the scratch.
Matrix Reconstruction::target(const ExecSpace& space, const Pass& pass, const TypedMatrix& stored) const {
  const Matrix in = stored.half() ? Matrix(pass.work.data(), stored.rows, stored.columns) : stored.real();
  if (stored.half()) copyValues(space, stored, in);
  if (_average == nullptr && _layout.trivial()) return in;
  const Matrix copy = topRows(_target, static_cast<std::int64_t>(in.extent(0)));
  if (_average != nullptr)
    _average->forward(space, pass, in, copy, Matrix());
  else
    toShapeOrder(space, _layout, in, copy);
  return copy;
}

void Reconstruction::addGradient(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                                 const Matrix& out, const DeviceFactor& weight, const Matrix& grad,
                                 const LayerChain::GradientReady& ready) {
  const Region region(space, "partita::Reconstruction::addGradient", Phase::elementwise);
  _decoder.forward(space, pass, out, _tape);
  const Matrix decoded = _tape.output().real();
  forEachElement(space, "partita::Reconstruction::error_kernel", decoded.extent(0), decoded.extent(1),
                 ErrorGradient{decoded, target(space, pass, in),
                               (weight / static_cast<Real>(decoded.extent(1))).inKernel()});
  const Matrix from_decoder(_grad_out.data(), out.extent(0), out.extent(1));
  const Vector no_work[2];
  _decoder.backward(space, pass, out, _tape, decoded, from_decoder, no_work, ready);
  addScaled(space, "partita::Reconstruction::add_kernel", grad, from_decoder);
}

} // namespace partita
