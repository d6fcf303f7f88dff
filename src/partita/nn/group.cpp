#include "partita/nn/group.hpp"

#include "partita/core/packs.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/activation.hpp"
#include "partita/plan/layer_rules.hpp"

#include <algorithm>
#include <type_traits>

namespace partita {

namespace {

template <class Act, class Stored>
struct AddActivation {
  Act act;
  const Stored *a, *b;
  Stored* out;
  Real* argument;
  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P, std::int64_t i) const {
    const Act local = act;
    const auto z = P::map([](Real x, Real y) { return x + y; }, P::load(a + i), P::load(b + i));
    if constexpr (Act::needs_argument) P::store(argument + i, z);
    P::store(out + i, P::map([=](Real of_z) { return local.value(of_z); }, z));
  }
};

/// The gradient of the sum, which both branches need. With `Copies` the body gets one of its own.
template <class Act, class Stored, bool Copies>
struct SumGradient {
  Act act;
  const Stored* out;
  const Real* argument;
  Stored *grad, *copy;
  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P, std::int64_t i) const {
    const Act local = act;
    const auto y = P::load(out + i);
    auto z = y;
    if constexpr (Act::needs_argument) z = P::load(argument + i);
    const auto slope = P::map([=](Real g, Real of_z, Real of_y) { return g * local.derivative(of_z, of_y); },
                              P::load(grad + i), z, y);
    P::store(grad + i, slope);
    // With a variable of the stored type, GCC would not vectorise the loop.
    if constexpr (Copies) P::store(copy + i, slope);
  }
};

/// Adds the gradient of the other branch, if it is wanted.
void addGradient(const ExecSpace& space, const TypedMatrix& to, const TypedMatrix& other) {
  if (to.size() == 0) return;
  const Region region(space, "partita::Group::add_gradient", Phase::elementwise);
  addScaled(space, "partita::Group::add_gradient_kernel", to, other);
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
  const std::int64_t body = _body.statistics();
  _body.bindStatistics(subvector(statistics, 0, body));
  _shortcut.bindStatistics(subvector(statistics, body, _shortcut.statistics()));
}

void Group::initialiseStatistics(Real* values) const {
  _body.initialiseStatistics(values);
  _shortcut.initialiseStatistics(values + _body.statistics());
}

/// In the order of GroupRules::workValues and savedValues.
Group::Memory Group::memoryOf(const Pass& pass, const TypedMatrix& out, const Matrix& saved) const {
  const std::int64_t rows = out.rows;
  Memory memory;
  Real* scratch = pass.work.data();
  for (Vector& gradient : memory.gradients) {
    gradient = Vector(scratch, _widest * rows);
    scratch += gradient.size();
  }
  Real* kept = saved.data();
  Real*& place = _plan.spec.recompute ? scratch : kept;
  memory.body = _body.tapeIn(place, rows, _residual ? TypedMatrix() : out);
  memory.shortcut = _shortcut.tapeIn(place, rows, TypedMatrix());
  if (_residual && needsArgument(_plan.spec.activation)) {
    memory.argument = place;
    place += rows * alignedRoom(out.columns);
  }
  memory.pass = pass;
  memory.pass.work = Vector(scratch, pass.work.size() - (scratch - pass.work.data()));
  return memory;
}

void Group::forwardInside(const ExecSpace& space, Memory& memory, const TypedMatrix& in) const {
  _body.forward(space, memory.pass, in, memory.body);
  if (!_shortcut.empty()) _shortcut.forward(space, memory.pass, in, memory.shortcut);
}

/// The sum of the branches and its activation.
void Group::add(const ExecSpace& space, const Memory& memory, const TypedMatrix& in,
                const TypedMatrix& out) const {
  const TypedMatrix body = memory.body.output(), beside = _shortcut.empty() ? in : memory.shortcut.output();
  withTypes(out.precision, _plan.spec, [&](auto act, auto stored) {
    using Stored = decltype(stored);
    const AddActivation<decltype(act), Stored> sum{act, body.as<Stored>(), beside.as<Stored>(),
                                                   out.as<Stored>(), memory.argument};
    forEachPack(space, "partita::Group::add_kernel", out.size(),
                alignedForPacks(sum.a, sum.b, sum.out, sum.argument), sum);
  });
}

void Group::forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                    const Matrix& saved) {
  Memory memory = memoryOf(pass, out, saved);
  forwardInside(space, memory, in);
  if (!_residual) return;
  const Region region(space, "partita::Group::add", Phase::elementwise);
  add(space, memory, in, out);
}

/// Replaces dJ/dout by the gradient of the sum, and copies it unless `copy` is dJ/dout itself.
void Group::activationGradient(const ExecSpace& space, const Memory& memory, const TypedMatrix& in,
                               const TypedMatrix& out, const TypedMatrix& grad,
                               const TypedMatrix& copy) const {
  const Region region(space, "partita::Group::activation_gradient", Phase::elementwise);
  if (_plan.spec.activation == Activation::identity) return copyValues(space, grad, copy);
  if (_plan.spec.recompute && needsArgument(_plan.spec.activation)) {
    add(space, memory, in, out);
    roundTo(space, _body.parameterPrecision(), out); // as forward left it
  }
  withTypes(out.precision, _plan.spec, [&](auto act, auto stored) {
    using Stored = decltype(stored);
    const auto run = [&](auto copies) {
      const SumGradient<decltype(act), Stored, decltype(copies)::value> body{
          act, out.as<Stored>(), memory.argument, grad.as<Stored>(), copy.as<Stored>()};
      forEachPack(space, "partita::Group::activation_gradient_kernel", out.size(),
                  alignedForPacks(body.out, body.argument, body.grad, body.copy), body);
    };
    if (copy.data == grad.data)
      run(std::false_type());
    else
      run(std::true_type());
  });
}

void Group::backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                     const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) {
  Memory memory = memoryOf(pass, out, saved);
  if (_plan.spec.recompute) {
    memory.pass.again = true;
    forwardInside(space, memory, in);
  }
  const Vector(&work)[2] = {memory.gradients[1], memory.gradients[2]};
  if (!_residual) return _body.backward(space, memory.pass, in, memory.body, grad_out, grad_in, work);
  Real* const beside = memory.gradients[0].data();
  const bool activates = _plan.spec.activation != Activation::identity,
             needs_copy = pass.transport.number > 0 || !_body.keepsGradient();
  const TypedMatrix to_body =
      needs_copy ? TypedMatrix(out.precision, beside, out.rows, out.columns) : grad_out;
  if (activates || needs_copy) activationGradient(space, memory, in, out, grad_out, to_body);
  if (pass.transport.number > 0) // the gradient of the penalty on the output of the body
    addScaled(space, "partita::Group::transport_kernel", to_body, memory.body.output(),
              pass.transport * static_cast<Real>(_plan.outputs()) /
                  static_cast<Real>(out.columns * _plan.whole().outputs()));
  _body.backward(space, memory.pass, in, memory.body, to_body, grad_in, work);
  if (_shortcut.empty()) {
    addGradient(space, grad_in, grad_out);
    return;
  }
  const TypedMatrix from_shortcut =
      grad_in.size() > 0 ? TypedMatrix(in.precision, beside, in.rows, in.columns) : TypedMatrix();
  _shortcut.backward(space, memory.pass, in, memory.shortcut, grad_out, from_shortcut, work);
  addGradient(space, grad_in, from_shortcut);
}

} // namespace partita
