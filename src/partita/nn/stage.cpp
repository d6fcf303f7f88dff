#include "partita/nn/stage.hpp"

#include "partita/core/error.hpp"

#include <algorithm>

namespace partita {

namespace {

Vector makeVector(const std::string& label, std::int64_t size) {
  return Vector(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), static_cast<std::size_t>(size));
}

} // namespace

std::vector<Real> Stage::initialValues(const StagePlan& plan, std::uint64_t seed) {
  std::vector<Real> values(static_cast<std::size_t>(plan.parameters()));
  std::int64_t offset = 0;
  for (const LayerPlan& layer : plan.layers) {
    makeLayer(layer)->initialise(seed, values.data() + offset);
    offset += layer.parameters();
  }
  return values;
}

Stage::Stage(const StagePlan& plan, const std::vector<Real>& values, std::int64_t capacity)
    : _plan(plan), _first_trained(plan.layers.size()) {
  std::int64_t offset = 0, widest = 0;
  for (const LayerPlan& layer_plan : plan.layers) {
    _layers.push_back(makeLayer(layer_plan));
    const Layer& layer = *_layers.back();
    _begin.push_back(offset);
    for (const ParameterShape& shape : layer.parameters()) {
      _tensors.push_back({layer.name(), shape.name, shape.extents, offset, shape.size()});
      offset += shape.size();
    }
    if (offset > _begin.back()) _first_trained = std::min(_first_trained, _layers.size() - 1);
    widest = std::max(widest, layer.outputs());
  }
  _begin.push_back(offset);
  PARTITA_REQUIRE(static_cast<std::int64_t>(values.size()) == offset, "wrong number of starting values");
  _parameters = makeVector("partita::Stage::parameters", offset);
  _gradients = Vector("partita::Stage::gradients", static_cast<std::size_t>(offset));
  const ExecSpace space;
  Kokkos::deep_copy(space, _parameters, Kokkos::View<const Real*, HostSpace>(values.data(), values.size()));
  fence(space, "partita::Stage::parameters");
  for (Vector& work : _work) work = makeVector("partita::Stage::work", widest * capacity);
  for (std::size_t i = 0; i < _layers.size(); ++i) {
    const auto size = static_cast<std::size_t>(_begin[i + 1] - _begin[i]);
    _layers[i]->bind(Vector(_parameters.data() + _begin[i], size),
                     Vector(_gradients.data() + _begin[i], size));
  }
}

Tape Stage::makeTape(std::int64_t capacity) const {
  Tape tape;
  for (const auto& layer : _layers) {
    tape.outputs.push_back(makeMatrix("partita::Tape::output", capacity, layer->outputs()));
    tape.saved.push_back(
        makeMatrix("partita::Tape::saved", layer->savedValues() > 0 ? capacity : 0, layer->savedValues()));
  }
  return tape;
}

Matrix Stage::forward(const ExecSpace& space, const Pass& pass, const Matrix& in, Tape& tape) {
  tape.rows = static_cast<std::int64_t>(in.extent(0));
  Matrix from = in;
  for (std::size_t i = 0; i < _layers.size(); ++i) {
    const Matrix to = topRows(tape.outputs[i], tape.rows);
    _layers[i]->forward(space, pass, from, to, topRows(tape.saved[i], tape.rows));
    from = to;
  }
  return from;
}

Matrix Stage::workGradient(std::size_t which, std::int64_t rows, std::int64_t columns) const {
  return Matrix(_work[which].data(), static_cast<std::size_t>(rows), static_cast<std::size_t>(columns));
}

Matrix Stage::outputGradient(std::int64_t rows) const {
  return workGradient(0, rows, outputs());
}

void Stage::backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Tape& tape,
                     const Matrix& grad_out, const Matrix& grad_in, const GradientReady& ready) {
  const bool input_wanted = grad_in.size() > 0;
  Matrix grad = grad_out;
  std::size_t next = grad_out.data() == _work[0].data() ? 1 : 0;
  for (std::size_t i = _layers.size(); i-- > 0;) {
    if (!input_wanted && i < _first_trained) break;
    Matrix before; // stays empty where nobody wants the gradient
    if (i > 0 && (input_wanted || i > _first_trained)) {
      before = workGradient(next, tape.rows, _layers[i]->inputs());
    } else if (i == 0) {
      before = grad_in;
    }
    const Matrix from = i == 0 ? in : topRows(tape.outputs[i - 1], tape.rows);
    _layers[i]->backward(space, pass, from, topRows(tape.outputs[i], tape.rows),
                         topRows(tape.saved[i], tape.rows), grad, before);
    if (ready && _begin[i + 1] > _begin[i]) ready(_begin[i], _begin[i + 1]);
    grad = before;
    next = 1 - next;
  }
}

} // namespace partita
