#include "partita/nn/stage.hpp"

#include "partita/core/error.hpp"

namespace partita {

namespace {

Vector makeVector(const std::string& label, std::int64_t size) {
  return Vector(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), static_cast<std::size_t>(size));
}

/// One behind the other, layer by layer.
std::vector<StageTensor> tensorsOf(const StagePlan& plan,
                                   std::vector<ParameterShape> (LayerPlan::*shapes)() const) {
  std::vector<StageTensor> tensors;
  std::int64_t offset = 0;
  for (const LayerPlan* layer : leavesOf(plan.layers)) {
    for (const ParameterShape& shape : (layer->*shapes)()) {
      tensors.push_back({layer->name(), shape.name, shape.extents, offset, shape.size()});
      offset += shape.size();
    }
  }
  return tensors;
}

void copyIn(const ExecSpace& space, const Vector& to, const std::vector<Real>& values) {
  Kokkos::deep_copy(space, to, Kokkos::View<const Real*, HostSpace>(values.data(), values.size()));
}

} // namespace

std::vector<Real> Stage::initialValues(const StagePlan& plan, std::uint64_t seed) {
  std::vector<Real> values(static_cast<std::size_t>(plan.parameters()));
  LayerChain(plan.layers).initialise(seed, values.data());
  return values;
}

Stage::Stage(const StagePlan& plan, const std::vector<Real>& values, std::int64_t capacity)
    : _plan(plan), _chain(plan.layers), _tensors(tensorsOf(plan, &LayerPlan::parameterShapes)),
      _statistics_tensors(tensorsOf(plan, &LayerPlan::statisticsShapes)) {
  const std::int64_t size = _chain.parameters();
  PARTITA_REQUIRE(static_cast<std::int64_t>(values.size()) == size, "wrong number of starting values");
  _parameters = makeVector("partita::Stage::parameters", size);
  _gradients = Vector("partita::Stage::gradients", static_cast<std::size_t>(size));
  _statistics = makeVector("partita::Stage::statistics", _chain.statistics());
  std::vector<Real> statistics(_statistics.extent(0));
  _chain.initialiseStatistics(statistics.data());
  const ExecSpace space;
  copyIn(space, _parameters, values);
  copyIn(space, _statistics, statistics);
  fence(space, "partita::Stage::parameters");
  for (Vector& work : _work) work = makeVector("partita::Stage::work", plan.widest() * capacity);
  _scratch = makeVector("partita::Stage::scratch", plan.workValues(capacity));
  _chain.bind(_parameters, _gradients);
  bindTable();
  _chain.bindStatistics(_statistics);
}

/// A dense layer may have the table of the embedding, which then is the stage's first layer.
void Stage::bindTable() {
  const LayerPlan* first = leavesOf(_plan.layers).front();
  if (first->spec.type != "embedding") return;
  const auto table = [&](const Vector& values) {
    return Matrix(values.data(), first->classes, first->spec.width);
  };
  _chain.bindTable(table(_parameters), table(_gradients));
}

Pass Stage::completed(Pass pass) const {
  pass.work = _scratch;
  pass.seed = _seed;
  pass.replicas = _replicas;
  return pass;
}

Matrix Stage::forward(const ExecSpace& space, const Pass& pass, const Matrix& in, Tape& tape) {
  return _chain.forward(space, completed(pass), in, tape);
}

Matrix Stage::outputGradient(std::int64_t rows) const {
  return Matrix(_work[0].data(), static_cast<std::size_t>(rows), static_cast<std::size_t>(outputs()));
}

Matrix Stage::outputGradient(const Matrix& output) const {
  return Matrix(_work[0].data(), output.extent(0), output.extent(1));
}

void Stage::backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Tape& tape,
                     const Matrix& grad_out, const Matrix& grad_in, const GradientReady& ready) {
  _chain.backward(space, completed(pass), in, tape, grad_out, grad_in, _work, ready);
}

} // namespace partita
