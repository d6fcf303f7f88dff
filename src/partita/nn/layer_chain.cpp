#include "partita/nn/layer_chain.hpp"

#include "partita/nn/exchange.hpp"

#include <algorithm>

namespace partita {

namespace {

/// Adds up values over all parts. Uses the end of the scratch.
void addParts(const ExecSpace& space, const Pass& pass, const Matrix& values, Travel travel) {
  if (values.size() == 0) return;
  const auto size = static_cast<std::int64_t>(values.size());
  pass.parts->sum(space, Vector(values.data(), values.size()),
                  pass.workAtEnd(size / pass.parts->ranks().size() + 1), travel);
}

} // namespace

LayerChain::LayerChain(const std::vector<LayerPlan>& plans)
    : _input(readHalf(plans) ? plans.front().inputPrecision() : Precision::single), _begin{0},
      _statistics_begin{0}, _first_trained(plans.size()) {
  for (const LayerPlan& plan : plans) {
    _has_interior.push_back(plan.part && plan.part->interior.places() > 0);
    _hidden.push_back(hiddenExchange(plans, _layers.size()));
    _layers.push_back(makeLayer(plan));
    _stored.push_back(plan.outputPrecision());
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
  LayerNumbers copy{subvector(_numbers.scratch, 0, size), subvector(_numbers.gradient_scratch, 0, size)};
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

/// Neighbouring tensors at once, but without the gaps of the copy, which hold what other layers have left
/// there.
void LayerChain::pack(const ExecSpace& space, std::size_t layer) const {
  if (!_copied[layer]) return;
  const TypedSpan from = copyOf(layer).gradients,
                  to = _numbers.gradients.part(_begin[layer], _begin[layer + 1]);
  std::int64_t begin = 0, end = 0, next = 0;
  for (const ParameterShape& shape : _shapes[layer]) {
    if (next > end) {
      convert(space, from.part(begin, end), to.part(begin, end));
      begin = next;
    }
    end = next + shape.size();
    next += storedSize(shape.size());
  }
  if (end > begin) convert(space, from.part(begin, end), to.part(begin, end));
}

void LayerChain::bindStatistics(const Vector& statistics) {
  for (std::size_t i = 0; i < _layers.size(); ++i) {
    const std::int64_t begin = _statistics_begin[i];
    _layers[i]->bindStatistics(subvector(statistics, begin, _statistics_begin[i + 1] - begin));
  }
}

void LayerChain::initialiseStatistics(Real* values) const {
  for (std::size_t i = 0; i < _layers.size(); ++i)
    _layers[i]->initialiseStatistics(values + _statistics_begin[i]);
}

Tape LayerChain::makeTape(std::int64_t capacity) const {
  Tape tape;
  for (std::size_t i = 0; i < _layers.size(); ++i) {
    const std::int64_t values = _layers[i]->outputs(), saved = _layers[i]->savedValues();
    tape.memory.emplace_back("partita::Tape::output", _stored[i], capacity, values);
    tape.outputs.push_back(tape.memory.back().top(capacity));
    tape.saved.push_back(saved > 0 ? makeMatrix("partita::Tape::saved", capacity, saved) : Matrix());
  }
  return tape;
}

Tape LayerChain::tapeIn(Real*& memory, std::int64_t rows, const TypedMatrix& out) const {
  const auto take = [&](std::int64_t room) {
    return std::exchange(memory, memory + rows * alignedRoom(room));
  };
  Tape tape;
  tape.rows = rows;
  for (std::size_t i = 0; i < _layers.size(); ++i) {
    const bool given = i + 1 == _layers.size() && out.size() > 0;
    const std::int64_t values = _layers[i]->outputs(), saved = _layers[i]->savedValues();
    tape.outputs.push_back(given ? out
                                 : TypedMatrix(_stored[i], take(roomOf(values, _stored[i])), rows, values));
    tape.saved.emplace_back(take(saved), rows, saved);
  }
  return tape;
}

/// The input as the first layer reads it. A copy takes the front of the scratch away from the layers.
TypedMatrix LayerChain::storedInput(const ExecSpace& space, Pass& pass, const TypedMatrix& in) const {
  if (in.precision == _input) return in;
  const std::int64_t room = in.rows * alignedRoom(roomOf(in.columns, _input));
  PARTITA_REQUIRE(room <= static_cast<std::int64_t>(pass.work.size()), "no scratch to convert an input");
  const TypedMatrix copy(_input, pass.work.data(), in.rows, in.columns);
  copyValues(space, in, copy);
  pass.work = subvector(pass.work, room, pass.work.size() - room);
  return copy;
}

void LayerChain::forward(const ExecSpace& space, const Pass& whole_pass, const TypedMatrix& in, Tape& tape,
                         const ParametersWanted& wanted) const {
  Pass pass = whole_pass;
  tape.rows = in.rows;
  TypedMatrix from = storedInput(space, pass, in);
  for (std::size_t i = 0; i < _layers.size(); ++i) {
    const bool with_next = i + 1 < _layers.size() && _has_interior[i + 1]; // a halo and the layer after it
    const TypedMatrix needed = with_next ? tape.output(i) : from;
    if (with_next) ++i;
    const TypedMatrix to = tape.output(i);
    const Matrix saved = topRows(tape.saved[i], tape.rows);
    if (wanted && _begin[i + 1] > _begin[i]) wanted(space, _begin[i], _begin[i + 1]);
    unpack(space, i, false);
    if (with_next)
      forwardWithHalo(space, pass, i, from.real(), needed.real(), to.real(), saved);
    else
      _layers[i]->forward(space, pass, from, to, saved);
    if (_partial_output[i]) addParts(space, pass, to.real(), Travel::whole);
    roundTo(space, _numbers.parameters.precision, to);
    from = to;
  }
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
  const TypedMatrix& before = operands.grad_in;
  bool reported = false, sent = false;
  const auto report = [&] {
    if (!std::exchange(reported, true)) handOn(space, layer, ready);
  };
  const auto send = [&] {
    sent = true;
    sendInputGradient(space, pass, layer, before.real());
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
  if (sent && _hidden[layer] == HiddenExchange::sum) addParts(space, pass, before.real(), Travel::arrive);
  return sent && _hidden[layer] == HiddenExchange::before;
}

/// A gradient as the last layer takes it: rounded, or converted in a work buffer.
TypedMatrix LayerChain::storedGradient(const ExecSpace& space, const Pass& pass, const TypedMatrix& gradient,
                                       void* room) const {
  if (gradient.precision == _stored.back()) {
    if (!_layers.back()->roundsGradient(pass.accumulate))
      roundTo(space, _numbers.parameters.precision, gradient);
    return gradient;
  }
  const TypedMatrix copy(_stored.back(), room, gradient.rows, gradient.columns);
  copyValues(space, gradient, copy);
  return copy;
}

void LayerChain::backward(const ExecSpace& space, const Pass& whole_pass, const TypedMatrix& in,
                          const Tape& tape, const TypedMatrix& grad_out, const TypedMatrix& grad_in,
                          const Vector (&work)[2], const GradientReady& ready) const {
  const bool input_wanted = grad_in.size() > 0;
  PARTITA_REQUIRE(!input_wanted || grad_in.precision == _input, "a gradient unlike the input it belongs to");
  Pass pass = whole_pass;
  const TypedMatrix first = storedInput(space, pass, in);
  std::size_t next = grad_out.data == work[0].data() ? 1 : 0;
  TypedMatrix grad = storedGradient(space, pass, grad_out, work[next].data());
  if (grad.data != grad_out.data) next = 1 - next;
  bool travels = false; // has the exchange before the last layer begun?
  for (std::size_t i = _layers.size(); i-- > 0;) {
    if (!input_wanted && i < _first_trained) break;
    TypedMatrix before; // stays empty if nothing needs the gradient
    if (i > 0 && (input_wanted || i > _first_trained)) {
      before = TypedMatrix(_stored[i - 1], work[next].data(), in.rows, _layers[i]->inputs());
    } else if (i == 0 && input_wanted) {
      before = grad_in;
    }
    if (travels) {
      _exchanges[i]->backward(space, pass, grad.real(), before.real(), Travel::arrive);
      travels = false;
    } else {
      const TypedMatrix from = i == 0 ? first : tape.output(i - 1), to = tape.output(i);
      travels =
          backwardLayer(space, pass, i, {from, to, topRows(tape.saved[i], tape.rows), grad, before}, ready);
    }
    if (!travels) roundTo(space, _numbers.parameters.precision, before);
    grad = before;
    next = 1 - next;
  }
}

} // namespace partita
