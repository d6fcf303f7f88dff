#include "partita/nn/attention.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/initialise.hpp"
#include "partita/plan/layer_rules.hpp"

#include <algorithm>

namespace partita {

namespace {

/// What a call has saved of its values.
AttentionValues valuesIn(const Matrix& saved, const AttentionShape& shape, Precision precision) {
  const TypedMatrix all(precision, saved.data(), 4 * shape.places(), shape.width);
  return {shape, all.rowsFrom(0, 3 * shape.places()).inRowsOf(3 * shape.width),
          all.rowsFrom(3 * shape.places(), shape.places()),
          saved.data() + roomOf(4 * shape.width * shape.positions, precision) * shape.samples};
}

} // namespace

Attention::Attention(const LayerPlan& plan)
    : PlannedLayer(plan), _width(plan.in[1]), _heads(plan.spec.attention.heads), _inner(widthOfHeads(plan)) {}

void Attention::bind(const LayerNumbers& numbers) {
  LayerTensors tensors(numbers);
  const bool bias = _plan.spec.attention.bias;
  _inward.weights = tensors.weights(3 * _inner, _width);
  if (bias) _inward.bias = tensors.small(3 * _inner);
  _outward.weights = tensors.weights(_width, _inner);
  if (bias && (!_plan.part || _plan.part->adds_bias)) _outward.bias = tensors.small(_width);
}

/// Initialises queries, keys and values each like a layer of its own.
void Attention::initialise(std::uint64_t seed, const std::string& tensor, const TensorSlice& slice,
                           Real* values) const {
  const bool inward = tensor == "qkv_weight";
  if (!inward && tensor != "out_weight") return PlannedLayer::initialise(seed, tensor, slice, values);
  const std::int64_t end = slice.offset[0] + slice.extents[0];
  for (std::int64_t row = slice.offset[0]; row < end;) {
    const std::int64_t part = row / _width, rows = std::min(end, (part + 1) * _width) - row;
    const TensorSlice own{{_width, _width}, {row % _width, slice.offset[1]}, {rows, slice.extents[1]}};
    const std::int64_t number = _plan.number * 4 + (inward ? part : 3) + (std::int64_t{1} << 24);
    initialiseWeights(_plan.initialisation, {seed, number, _width, _width}, own, values);
    values += own.size();
    row += rows;
  }
}

void Attention::project(const ExecSpace& space, const Projection& projection, const TypedMatrix& in,
                        const TypedMatrix& out) {
  projection.weights.forward(space, in, out, projection.bias.asBias(space, out.precision));
}

void Attention::addGradients(const ExecSpace& space, const Projection& projection, bool accumulate,
                             const TypedMatrix& in, const TypedMatrix& grad_out) {
  const bool biased = projection.bias.stored().size > 0,
             in_product = biased && projection.weights.fusesSums(accumulate);
  projection.weights.addGradient(space, accumulate, in, grad_out,
                                 in_product ? projection.bias.storedGradient() : TypedSpan{});
  if (!biased || in_product) return;
  const Region region(space, "partita::Attention::bias_gradient", Phase::elementwise);
  withStored(grad_out.precision, [&](auto stored) {
    using Stored = decltype(stored);
    sumColumns(space, "partita::Attention::bias_gradient_kernel", grad_out.rows, grad_out.columns,
               ValuesOf<Stored>{grad_out.as<Stored>(), grad_out.columns},
               projection.bias.gradient(space, accumulate).data(), accumulate);
  });
  projection.bias.storeGradient(space);
}

AttentionShape Attention::shapeOf(const TypedMatrix& in) const {
  return {in.rows, in.columns / _width, _heads, _inner};
}

void Attention::forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                        const TypedMatrix& out, const Matrix& saved) {
  const AttentionValues values = valuesIn(saved, shapeOf(in), _plan.activations);
  project(space, _inward, in.inRowsOf(_width), values.qkv);
  attend(space, values, pass.work.data());
  project(space, _outward, values.out, out.inRowsOf(_width));
}

void Attention::backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& samples_in,
                         const TypedMatrix&, const Matrix& saved, const TypedMatrix& samples_grad_out,
                         const TypedMatrix& samples_grad_in) {
  const AttentionValues values = valuesIn(saved, shapeOf(samples_in), _plan.activations);
  PARTITA_REQUIRE(static_cast<std::int64_t>(pass.work.size()) >=
                      attentionBackScratch(values.shape, _plan.activations),
                  "scratch that does not hold the gradients of attention");
  const AttentionGradients grads = gradientsIn(pass.work.data(), values);
  const TypedMatrix in = samples_in.inRowsOf(_width), grad_out = samples_grad_out.inRowsOf(_width),
                    grad_in = samples_grad_in.inRowsOf(_width);
  const bool parameters_last = pass.inputGradientFirst();
  if (!parameters_last) addGradients(space, _outward, pass.accumulate, values.out, grad_out);
  _outward.weights.inputGradient(space, grad_out, grads.out, !parameters_last);
  attendBack(space, values, grads);
  if (!parameters_last) addGradients(space, _inward, pass.accumulate, in, grads.qkv);
  _inward.weights.inputGradient(space, grads.qkv, grad_in, !parameters_last);
  if (!parameters_last) return;
  pass.reportInputGradient();
  addGradients(space, _outward, pass.accumulate, values.out, grad_out);
  addGradients(space, _inward, pass.accumulate, in, grads.qkv);
}

} // namespace partita
