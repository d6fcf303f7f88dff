#include "partita/nn/layer_chain.hpp"

#include "partita/nn/exchange.hpp"

#include <algorithm>

namespace partita {

namespace {

Vector part(const Vector& values, std::int64_t begin, std::int64_t end) {
  return Vector(values.data() + begin, end - begin);
}

/// Adds up values over all parts. Uses the end of the scratch.
void addParts(const ExecSpace& space, const Pass& pass, const Matrix& values, Travel travel) {
  if (values.size() == 0) return;
  const auto size = static_cast<std::int64_t>(values.size());
  pass.parts->sum(space, Vector(values.data(), values.size()),
                  pass.workAtEnd(size / pass.parts->ranks().size() + 1), travel);
}

} // namespace

LayerChain::LayerChain(const std::vector<LayerPlan>& plans)
    : _begin{0}, _statistics_begin{0}, _first_trained(plans.size()) {
  for (const LayerPlan& plan : plans) {
    _has_interior.push_back(plan.part && plan.part->interior.places() > 0);
    _hidden.push_back(hiddenExchange(plans, _layers.size()));
    _layers.push_back(makeLayer(plan));
    _exchanges.push_back(plan.exchange ? static_cast<const ExchangeLayer*>(_layers.back().get()) : nullptr);
    _shapes.push_back(plan.parameterShapes());
    _partial_output.push_back(plan.part && plan.part->partial_output);
    _begin.push_back(_begin.back() + plan.storedValues());
    _statistics_begin.push_back(_statistics_begin.back() + plan.statistics());
    if (plan.parameters() > 0) _first_trained = std::min(_first_trained, _layers.size() - 1);
  }
}

void LayerChain::bind(const LayerNumbers& numbers) {
  _numbers = numbers;
  _copied.assign(_layers.size(), false);
  for (std::size_t i = 0; i < _layers.size(); ++i) {
    _copied[i] = numbers.packed() && !_layers[i]->acceptsHalf() && _begin[i + 1] > _begin[i];
    _layers[i]->bind(_copied[i] ? copyOf(i) : numbers.part(_begin[i], _begin[i + 1]));
  }
}

/// Where a layer that needs `Real` finds its numbers.
LayerNumbers LayerChain::copyOf(std::size_t layer) const {
  const std::int64_t size = _begin[layer + 1] - _begin[layer];
  LayerNumbers copy{part(_numbers.scratch, 0, size), part(_numbers.gradient_scratch, 0, size)};
  copy.exact_in = _numbers.exact_in;
  return copy;
}

/// Gives a layer its numbers as `Real`; gradients only if the layer adds to them.
void LayerChain::unpack(const ExecSpace& space, std::size_t layer, bool gradients) const {
  if (!_copied[layer]) return;
  const LayerNumbers own = _numbers.part(_begin[layer], _begin[layer + 1]), copy = copyOf(layer);
  convert(space, own.parameters, copy.parameters);
  if (gradients) convert(space, own.gradients, copy.gradients);
}

/// Tensor by tensor, because the gaps of the copy hold what other layers have left there.
void LayerChain::pack(const ExecSpace& space, std::size_t layer) const {
  if (!_copied[layer]) return;
  const TypedSpan from = copyOf(layer).gradients,
                  to = _numbers.gradients.part(_begin[layer], _begin[layer + 1]);
  std::int64_t begin = 0;
  for (const ParameterShape& shape : _shapes[layer]) {
    convert(space, from.part(begin, begin + shape.size()), to.part(begin, begin + shape.size()));
    begin += storedSize(shape.size());
  }
}

void LayerChain::bindStatistics(const Vector& statistics) {
  for (std::size_t i = 0; i < _layers.size(); ++i)
    _layers[i]->bindStatistics(part(statistics, _statistics_begin[i], _statistics_begin[i + 1]));
}

void LayerChain::initialiseStatistics(Real* values) const {
  for (std::size_t i = 0; i < _layers.size(); ++i)
    _layers[i]->initialiseStatistics(values + _statistics_begin[i]);
}

Tape LayerChain::makeTape(std::int64_t capacity) const {
  Tape tape;
  for (const auto& layer : _layers) {
    tape.outputs.push_back(makeMatrix("partita::Tape::output", capacity, layer->outputs()));
    tape.saved.push_back(
        makeMatrix("partita::Tape::saved", layer->savedValues() > 0 ? capacity : 0, layer->savedValues()));
  }
  return tape;
}

Tape LayerChain::tapeIn(Real*& memory, std::int64_t rows, const Matrix& out) const {
  const auto take = [&](std::int64_t values) {
    const Matrix matrix(memory, rows, values);
    memory += matrix.size();
    return matrix;
  };
  Tape tape;
  tape.rows = rows;
  for (const auto& layer : _layers) {
    const bool given = layer == _layers.back() && out.size() > 0;
    tape.outputs.push_back(given ? out : take(layer->outputs()));
    tape.saved.push_back(take(layer->savedValues()));
  }
  return tape;
}

Matrix LayerChain::forward(const ExecSpace& space, const Pass& pass, const Matrix& in, Tape& tape,
                           const ParametersWanted& wanted) const {
  tape.rows = in.extent(0);
  Matrix from = in;
  for (std::size_t i = 0; i < _layers.size(); ++i) {
    const bool with_next = i + 1 < _layers.size() && _has_interior[i + 1]; // a halo and the layer after it
    const Matrix needed = with_next ? shaped(tape.outputs[i].data(), _layers[i]->outputs(), in) : from;
    if (with_next) ++i;
    const Matrix to = shaped(tape.outputs[i].data(), _layers[i]->outputs(), in),
                 saved = topRows(tape.saved[i], tape.rows);
    if (wanted && _begin[i + 1] > _begin[i]) wanted(space, _begin[i], _begin[i + 1]);
    unpack(space, i, false);
    if (with_next)
      forwardWithHalo(space, pass, i, from, needed, to, saved);
    else
      _layers[i]->forward(space, pass, from, to, saved);
    if (_partial_output[i]) addParts(space, pass, to, Travel::whole);
    roundTo(space, _numbers.parameters.precision, to);
    from = to;
  }
  tape.columns = from.extent(1);
  return from;
}

/// A layer and the exchange before it, whose messages travel while the layer computes its interior.
void LayerChain::forwardWithHalo(const ExecSpace& space, const Pass& pass, std::size_t layer,
                                 const Matrix& in, const Matrix& needed, const Matrix& out,
                                 const Matrix& saved) const {
  const auto compute = [&](OutputPlaces places) {
    Pass own = pass;
    own.outputs = places;
    roundTo(space, _numbers.parameters.precision, needed);
    _layers[layer]->forward(space, own, needed, out, saved);
  };
  _exchanges[layer - 1]->halo(space, pass, in, needed, Travel::depart);
  compute(OutputPlaces::interior);
  _exchanges[layer - 1]->halo(space, pass, in, needed, Travel::arrive);
  compute(OutputPlaces::rest);
}

/// The gradients of a layer are final.
void LayerChain::handOn(const ExecSpace& space, std::size_t layer, const GradientReady& ready) const {
  pack(space, layer);
  if (ready && _begin[layer + 1] > _begin[layer]) ready(_begin[layer], _begin[layer + 1]);
}

/// Lets the gradient of a layer's input travel to other parts.
void LayerChain::sendInputGradient(const ExecSpace& space, const Pass& pass, std::size_t layer,
                                   const Matrix& gradient) const {
  if (_hidden[layer] == HiddenExchange::sum) return addParts(space, pass, gradient, Travel::depart);
  roundTo(space, _numbers.parameters.precision, gradient);
  _exchanges[layer - 1]->backward(space, pass, gradient, Matrix(), Travel::depart);
}

/// Returns whether the exchange before the layer has begun.
bool LayerChain::backwardLayer(const ExecSpace& space, const Pass& pass, std::size_t layer,
                               const Operands& operands, const GradientReady& ready) const {
  const Matrix& before = operands.grad_in;
  bool reported = false, sent = false;
  const auto report = [&] {
    if (!std::exchange(reported, true)) handOn(space, layer, ready);
  };
  const auto send = [&] {
    sent = true;
    sendInputGradient(space, pass, layer, before);
  };
  const std::function<void()> gradients_final = std::ref(report), input_gradient = std::ref(send);
  const bool hides = _hidden[layer] != HiddenExchange::none && before.size() > 0;
  Pass own = pass;
  own.gradients_final = &gradients_final;
  own.input_gradient = hides ? &input_gradient : nullptr;
  unpack(space, layer, pass.accumulate);
  _layers[layer]->backward(space, own, operands.in, operands.out, operands.saved, operands.grad_out, before);
  report(); // unless the layer has done so itself
  PARTITA_REQUIRE(sent == hides, _layers[layer]->name() + ": the gradient of the input was not reported");
  if (sent && _hidden[layer] == HiddenExchange::sum) addParts(space, pass, before, Travel::arrive);
  return sent && _hidden[layer] == HiddenExchange::before;
}

void LayerChain::backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Tape& tape,
                          const Matrix& grad_out, const Matrix& grad_in, const Vector (&work)[2],
                          const GradientReady& ready) const {
  const bool input_wanted = grad_in.size() > 0;
  Matrix grad = grad_out;
  roundTo(space, _numbers.parameters.precision, grad);
  std::size_t next = grad_out.data() == work[0].data() ? 1 : 0;
  bool travels = false; // has the exchange before the last layer begun?
  for (std::size_t i = _layers.size(); i-- > 0;) {
    if (!input_wanted && i < _first_trained) break;
    Matrix before; // stays empty if nothing needs the gradient
    if (i > 0 && (input_wanted || i > _first_trained)) {
      before = shaped(work[next].data(), _layers[i]->inputs(), in);
    } else if (i == 0) {
      before = grad_in;
    }
    if (travels) {
      _exchanges[i]->backward(space, pass, grad, before, Travel::arrive);
      travels = false;
    } else {
      const Matrix from = i == 0 ? in : shaped(tape.outputs[i - 1].data(), _layers[i]->inputs(), in),
                   to = shaped(tape.outputs[i].data(), _layers[i]->outputs(), in);
      travels =
          backwardLayer(space, pass, i, {from, to, topRows(tape.saved[i], tape.rows), grad, before}, ready);
    }
    if (!travels) roundTo(space, _numbers.parameters.precision, before);
    grad = before;
    next = 1 - next;
  }
}

} // namespace partita
