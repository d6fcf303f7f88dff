#include "partita/nn/stage.hpp"

#include "partita/core/error.hpp"

namespace partita {

namespace {

Vector makeVector(const std::string& label, std::int64_t size) {
  return Vector(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), static_cast<std::size_t>(size));
}

} // namespace

std::vector<Real> Stage::initialValues(const StagePlan& plan, std::uint64_t seed) {
  std::vector<Real> values(static_cast<std::size_t>(plan.parameters()));
  LayerChain(plan.layers).initialise(seed, values.data());
  return values;
}

Stage::Stage(const StagePlan& plan, const std::vector<Real>& values, std::int64_t capacity)
    : _plan(plan), _chain(plan.layers) {
  std::int64_t offset = 0;
  for (const LayerPlan* layer : leavesOf(plan.layers)) {
    for (const ParameterShape& shape : layer->parameterShapes()) {
      _tensors.push_back({layer->name(), shape.name, shape.extents, offset, shape.size()});
      offset += shape.size();
    }
  }
  PARTITA_REQUIRE(static_cast<std::int64_t>(values.size()) == offset, "wrong number of starting values");
  _parameters = makeVector("partita::Stage::parameters", offset);
  _gradients = Vector("partita::Stage::gradients", static_cast<std::size_t>(offset));
  _masters = StoredVector(_parameters);
  setParameters(ExecSpace(), values.data());
  for (Vector& work : _work) work = makeVector("partita::Stage::work", plan.widest() * capacity);
  _scratch = makeVector("partita::Stage::scratch", plan.workValues(capacity));
  _chain.bind(_parameters, _gradients);
}

Trained Stage::trained() const {
  return {_parameters, _gradients, StoredVector()};
}

void Stage::setParameters(const ExecSpace& space, const Real* values) {
  _masters.copyIn(space, values);
}

Pass Stage::withScratch(Pass pass) const {
  pass.work = _scratch;
  return pass;
}

Matrix Stage::forward(const ExecSpace& space, const Pass& pass, const Matrix& in, Tape& tape) {
  return _chain.forward(space, withScratch(pass), in, tape);
}

Matrix Stage::outputGradient(std::int64_t rows) const {
  return Matrix(_work[0].data(), static_cast<std::size_t>(rows), static_cast<std::size_t>(outputs()));
}

void Stage::backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Tape& tape,
                     const Matrix& grad_out, const Matrix& grad_in, const GradientReady& ready) {
  _chain.backward(space, withScratch(pass), in, tape, grad_out, grad_in, _work, ready);
}

} // namespace partita
