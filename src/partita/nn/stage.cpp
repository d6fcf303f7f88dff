#include "partita/nn/stage.hpp"

#include "partita/core/aligned.hpp"
#include "partita/core/error.hpp"
#include "partita/kernels/products.hpp"
#include "partita/plan/layer_rules.hpp"

#include <cstring>

namespace partita {

namespace {

Vector makeVector(const std::string& label, std::int64_t size) {
  return Vector(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), size);
}

/// Zeros, in the memory that is given or in the stage's own.
template <class View>
View zerosIn(const TypedSpan& given, Precision precision, const std::string& label, std::int64_t size) {
  if (given.data == nullptr) return makeAligned<View>(label, size);
  PARTITA_REQUIRE(given.size == size && given.precision == precision,
                  label + ": memory for " + std::to_string(given.size) + " values was given, but " +
                      std::to_string(size) + " of the stage's precision are needed");
  const View view(static_cast<typename View::value_type*>(given.data), size);
  Kokkos::deep_copy(ExecSpace(), view, typename View::value_type(0));
  return view;
}

/// Size of the table of the stage's embedding, which is then the first layer and begins with the table; 0 if
/// there is none. A dense layer may share the table.
std::int64_t tableValues(const StagePlan& plan) {
  const LayerPlan* first = leavesOf(plan.layers).front();
  const Shape table = first->rules().table(*first);
  return table.empty() ? 0 : valuesOf(table);
}

} // namespace

std::vector<Real> Stage::initialValues(const StagePlan& plan, std::uint64_t seed) {
  std::vector<Real> values(plan.storedValues());
  const std::vector<LayerPlan> all = plan.allLayers();
  std::int64_t offset = 0;
  for (const LayerPlan* leaf : leavesOf(all)) {
    if (leaf->parameterShapes().empty()) continue;
    const auto layer = makeLayer(leaf->whole());
    const std::vector<ParameterShape> whole = leaf->whole().parameterShapes();
    for (const ParameterShape& shape : leaf->parameterShapes()) {
      Real* to = values.data() + offset;
      for (const TensorSlice& slice : leaf->slicesOf(shape.name, extentsOf(whole, shape.name))) {
        layer->initialise(seed, shape.name, slice, to);
        to += slice.size();
      }
      offset += storedSize(shape.size());
    }
  }
  return values;
}

Stage::Stage(const StagePlan& plan, const std::vector<Real>& values, std::int64_t capacity,
             const StageStorage& storage)
    : _plan(plan), _chain(plan.layers), _head(plan.head),
      _decoder(plan.decoder.empty() ? nullptr : std::make_unique<Reconstruction>(plan, capacity)),
      _tensors(parameterTensors(plan.allLayers())), _statistics_tensors(statisticTensors(plan.allLayers())),
      _precision(storage.precision) {
  const std::int64_t size = plan.storedValues();
  const Precision activations = plan.layers.front().activations;
  PARTITA_REQUIRE(activations == Precision::single || activations == _precision,
                  "a stage whose activations and parameters have different precisions");
  PARTITA_REQUIRE(static_cast<std::int64_t>(values.size()) == size, "wrong number of starting values");
  makeNumbers(storage, size, capacity);
  setParameters(ExecSpace(), values.data());
  makeStatistics(storage.given.statistics);
  for (Vector& work : _work) work = makeVector("partita::Stage::work", plan.widest() * capacity);
  _scratch = makeVector("partita::Stage::scratch", plan.workValues(capacity));
}

void Stage::makeStatistics(const TypedSpan& given) {
  const std::int64_t own = _chain.statistics(), all = own + _head.statistics();
  _statistics = zerosIn<Vector>(given, Precision::single, "partita::Stage::statistics", all);
  std::vector<Real> statistics(_statistics.extent(0));
  _chain.initialiseStatistics(statistics.data());
  _head.initialiseStatistics(statistics.data() + own);
  StoredVector(_statistics).copyIn(ExecSpace(), statistics.data());
  _chain.bindStatistics(_statistics);
  _head.bindStatistics(subvector(_statistics, own, all - own));
}

void Stage::makeNumbers(const StageStorage& storage, std::int64_t size, std::int64_t capacity) {
  const GivenMemory& given = storage.given;
  const std::string label = "partita::Stage::parameters", gradient_label = "partita::Stage::gradients";
  Vector scratch, gradient_scratch;
  if (_precision == Precision::single) {
    _parameters = zerosIn<Vector>(given.parameters, _precision, label, size);
    _gradients = zerosIn<Vector>(given.gradients, _precision, gradient_label, size);
    _masters = StoredVector(_parameters);
  } else {
    _halves = zerosIn<Halves>(given.parameters, _precision, label, size);
    _gradient_halves = zerosIn<Halves>(given.gradients, _precision, gradient_label, size);
    _masters = StoredVector(storage.masters, "partita::Stage::masters", size);
    const std::int64_t scratch_values = _plan.halfScratch(capacity);
    scratch = makeAligned<Vector>("partita::Stage::values", scratch_values);
    gradient_scratch = makeAligned<Vector>("partita::Stage::gradients_of_values", scratch_values);
  }
  const TypedSpan parameters = trained().parameters, gradients = trained().gradients;
  PARTITA_REQUIRE(size == 0 || (isAligned(parameters.data) && isAligned(gradients.data)),
                  "memory for a stage does not begin at a multiple of 128 bytes");
  const std::int64_t table = tableValues(_plan);
  const LayerNumbers numbers{
      parameters,       gradients, parameters.part(0, table), gradients.part(0, table), scratch,
      gradient_scratch, _precision};
  _chain.bind(numbers.part(0, _chain.storedValues()));
  if (_decoder != nullptr) _decoder->bind(numbers.part(_chain.storedValues(), _plan.storedBeforeHead()));
  _head.bind(numbers.part(_plan.storedBeforeHead(), size));
}

ParameterBuffers Stage::trained() const {
  if (_precision == Precision::single) return {_parameters, _gradients, StoredVector()};
  return {{_precision, _halves.data(), _masters.size()},
          {_precision, _gradient_halves.data(), _masters.size()},
          _masters};
}

void Stage::setParameters(const ExecSpace& space, const Real* values) {
  _masters.copyIn(space, values);
  if (_precision == Precision::single) return;
  const auto host = Kokkos::create_mirror_view(_halves);
  withStored(_precision, [&](auto stored) {
    using Stored = decltype(stored);
    for (std::size_t i = 0; i < host.size(); ++i) {
      const auto rounded = fromReal<Stored>(values[i]);
      std::memcpy(&host(i), &rounded, sizeof(std::uint16_t));
    }
  });
  Kokkos::deep_copy(space, _halves, host);
  fence(space, "partita::Stage::setParameters");
}

void Stage::setParameters(const ExecSpace& space, std::int64_t begin, const Vector& values) {
  const std::int64_t end = begin + static_cast<std::int64_t>(values.size());
  _masters.save(space, begin, values);
  if (_precision != Precision::single)
    convert(space, {Precision::single, values.data(), end - begin}, trained().parameters.part(begin, end));
}

Pass Stage::completed(Pass pass) const {
  pass.work = _scratch;
  pass.seed = _seed;
  pass.replicas = _replicas;
  pass.parts = _parts;
  return pass;
}

TypedMatrix Stage::forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, Tape& tape) {
  _chain.forward(space, completed(pass), in, tape, _wanted);
  // Late sums must be complete before gradients of the head, which lies after the decoder, can be ready.
  if (_decoder != nullptr && _wanted) _wanted(space, _chain.storedValues(), _plan.storedBeforeHead());
  return tape.output();
}

Matrix Stage::outputGradient(std::int64_t rows) const {
  return gradientFor(TypedMatrix(Precision::single, nullptr, rows, outputs())).real();
}

TypedMatrix Stage::gradientFor(const TypedMatrix& output) const {
  const std::int64_t room = output.rows * roomOf(output.columns, output.precision);
  PARTITA_REQUIRE(room <= static_cast<std::int64_t>(_work[0].size()),
                  "no room for the gradient of an output");
  return TypedMatrix(output.precision, _work[0].data(), output.rows, output.columns);
}

void Stage::backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const Tape& tape,
                     const TypedMatrix& grad_out, const TypedMatrix& grad_in, const GradientReady& ready) {
  _chain.backward(space, completed(pass), in, tape, grad_out, grad_in, _work, ready);
}

Matrix Stage::forwardHead(const ExecSpace& space, const Pass& pass, const Matrix& out, Tape& tape) {
  const std::int64_t before = _plan.storedBeforeHead();
  ParametersWanted wanted;
  if (_wanted) {
    wanted = [&](const ExecSpace& on, std::int64_t begin, std::int64_t end) {
      _wanted(on, before + begin, before + end);
    };
  }
  _head.forward(space, completed(pass), out, tape, wanted);
  return tape.output().real();
}

/// A backward pass uses the two work buffers in turn, and leaves the gradient of the output in the first one.
Matrix Stage::logitGradient(const Matrix& logits) const {
  return Matrix(_work[_plan.head.size() % 2].data(), logits.extent(0), logits.extent(1));
}

/// Converts places in one of the chains to places in the flat buffers.
Stage::GradientReady Stage::shifted(const GradientReady& ready, std::int64_t by) {
  if (!ready) return {};
  return [&ready, by](std::int64_t begin, std::int64_t end) { ready(by + begin, by + end); };
}

void Stage::backwardHead(const ExecSpace& space, const Pass& pass, const Matrix& out, const Tape& tape,
                         const Matrix& grad_logits, const GradientReady& ready) {
  _head.backward(space, completed(pass), out, tape, grad_logits, outputGradient(out.extent(0)), _work,
                 shifted(ready, _plan.storedBeforeHead()));
}

void Stage::addReconstruction(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                              const TypedMatrix& out, const DeviceFactor& weight, const TypedMatrix& grad,
                              const GradientReady& ready) {
  if (_decoder == nullptr) return;
  const std::int64_t before = _chain.storedValues();
  _decoder->addGradient(space, completed(pass), in, out.real(), weight * static_cast<Real>(_plan.reconstruct),
                        grad.real(), shifted(ready, before));
}

void Stage::skipHead(const ExecSpace& space, const GradientReady& ready) {
  const std::int64_t before = _chain.storedValues(), end = _masters.size();
  if (before == end) return;
  if (_wanted) _wanted(space, before, end);
  const auto range = std::make_pair(before, end);
  if (_precision == Precision::single)
    Kokkos::deep_copy(space, Kokkos::subview(_gradients, range), Real(0));
  else
    Kokkos::deep_copy(space, Kokkos::subview(_gradient_halves, range), std::uint16_t(0));
  if (ready) ready(before, end);
}

} // namespace partita
