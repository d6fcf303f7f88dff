#include "partita/nn/group.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/activation.hpp"
#include "partita/plan/layer_rules.hpp"

#include <algorithm>

namespace partita {

namespace {

template <class Act>
struct AddActivation {
  Act act;
  Matrix a, b, out, argument;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const {
    const Real z = a(i, j) + b(i, j);
    if (Act::needs_argument) argument(i, j) = z;
    out(i, j) = act.value(z);
  }
};

template <class Act>
struct ScaleByDerivative {
  Act act;
  Matrix out, argument, grad;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const {
    const Real y = out(i, j);
    grad(i, j) *= act.derivative(Act::needs_argument ? argument(i, j) : y, y);
  }
};

Matrix asMatrix(const Vector& values, std::size_t rows, std::size_t columns) {
  return Matrix(values.data(), rows, columns);
}

} // namespace

Group::Group(const LayerPlan& plan)
    : PlannedLayer(plan), _residual(plan.rules().residual()), _widest(plan.widestInside()), _body(plan.body),
      _shortcut(plan.shortcut) {}

void Group::bind(const LayerNumbers& numbers) {
  const std::int64_t body = _body.storedValues();
  _body.bind(numbers.part(0, body));
  _shortcut.bind(numbers.part(body, body + _shortcut.storedValues()));
}

void Group::bindStatistics(const Vector& statistics) {
  const std::size_t body = _body.statistics();
  _body.bindStatistics(Vector(statistics.data(), body));
  _shortcut.bindStatistics(Vector(statistics.data() + body, _shortcut.statistics()));
}

void Group::initialiseStatistics(Real* values) const {
  _body.initialiseStatistics(values);
  _shortcut.initialiseStatistics(values + _body.statistics());
}

/// In the order of GroupRules::workValues and savedValues.
Group::Memory Group::memoryOf(const Pass& pass, const Matrix& out, const Matrix& saved) const {
  const std::int64_t rows = out.extent(0);
  Memory memory;
  Real* scratch = pass.work.data();
  for (Vector& gradient : memory.gradients) {
    gradient = Vector(scratch, _widest * rows);
    scratch += gradient.size();
  }
  Real* kept = saved.data();
  Real*& place = _plan.spec.recompute ? scratch : kept;
  memory.body = _body.tapeIn(place, rows, _residual ? Matrix() : out);
  memory.shortcut = _shortcut.tapeIn(place, rows, Matrix());
  memory.body.columns = memory.shortcut.columns = out.extent(1);
  if (_residual && needsArgument(_plan.spec.activation)) {
    memory.argument = Matrix(place, out.extent(0), out.extent(1));
    place += out.size();
  }
  memory.pass = pass;
  memory.pass.work = Vector(scratch, pass.work.size() - (scratch - pass.work.data()));
  return memory;
}

void Group::forwardInside(const ExecSpace& space, Memory& memory, const Matrix& in) const {
  _body.forward(space, memory.pass, in, memory.body);
  if (!_shortcut.empty()) _shortcut.forward(space, memory.pass, in, memory.shortcut);
}

Matrix Group::beside(const Memory& memory, const Matrix& in) const {
  return _shortcut.empty() ? in : memory.shortcut.output();
}

void Group::forward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                    const Matrix& saved) {
  Memory memory = memoryOf(pass, out, saved);
  forwardInside(space, memory, in);
  if (!_residual) return;
  const Region region(space, "partita::Group::add", Phase::elementwise);
  withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
    forEachElement(
        space, "partita::Group::add_kernel", out.extent(0), out.extent(1),
        AddActivation<decltype(act)>{act, memory.body.output(), beside(memory, in), out, memory.argument});
  });
}

void Group::backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                     const Matrix& saved, const Matrix& grad_out, const Matrix& grad_in) {
  Memory memory = memoryOf(pass, out, saved);
  if (_plan.spec.recompute) {
    memory.pass.again = true;
    forwardInside(space, memory, in);
  }
  const Vector(&work)[2] = {memory.gradients[1], memory.gradients[2]};
  if (!_residual) return _body.backward(space, memory.pass, in, memory.body, grad_out, grad_in, work);
  const std::size_t rows = out.extent(0);
  withActivation(_plan.spec.activation, _plan.spec.slope, [&](auto act) {
    if (_plan.spec.activation == Activation::identity) return;
    if (_plan.spec.recompute && decltype(act)::needs_argument) {
      forEachElement(
          space, "partita::Group::argument_kernel", rows, out.extent(1),
          AddActivation<decltype(act)>{act, memory.body.output(), beside(memory, in), out, memory.argument});
    }
    forEachElement(space, "partita::Group::activation_gradient_kernel", rows, out.extent(1),
                   ScaleByDerivative<decltype(act)>{act, out, memory.argument, grad_out});
  });
  const Matrix to_body = asMatrix(memory.gradients[0], rows, out.extent(1)); // the other branch needs it too
  Kokkos::deep_copy(space, to_body, grad_out);
  if (pass.transport > 0) // the gradient of the penalty on the output of the body
    addScaled(space, "partita::Group::transport_kernel", to_body, memory.body.output(),
              pass.transport * static_cast<Real>(_plan.outputs()) /
                  static_cast<Real>(out.extent(1) * _plan.whole().outputs()));
  _body.backward(space, memory.pass, in, memory.body, to_body, grad_in, work);
  if (_shortcut.empty()) {
    if (grad_in.size() > 0) addScaled(space, "partita::Group::add_gradient_kernel", grad_in, grad_out);
    return;
  }
  const Matrix from_shortcut =
      grad_in.size() > 0 ? asMatrix(memory.gradients[0], rows, in.extent(1)) : Matrix();
  _shortcut.backward(space, memory.pass, in, memory.shortcut, grad_out, from_shortcut, work);
  if (grad_in.size() > 0) addScaled(space, "partita::Group::add_gradient_kernel", grad_in, from_shortcut);
}

} // namespace partita
