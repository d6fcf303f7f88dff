#include "partita/nn/attention.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/attention_kernels.hpp"
#include "partita/nn/attention_teams.hpp"
#include "partita/nn/initialise.hpp"
#include "partita/plan/layer_rules.hpp"

#include <algorithm>
#include <type_traits>

namespace partita {

namespace {

/// Values of all positions of a call, or their gradients, as kernels take them.
struct Buffers {
  Buffers(const AttentionShape& its_shape, Real* memory)
      : shape(its_shape), qkv(memory, places(), 3 * shape.width),
        heads_out(memory + 3 * places() * shape.width, places(), shape.width),
        sums(memory + 4 * places() * shape.width) {}
  std::int64_t places() const { return shape.samples * shape.positions; }
  AttentionShape shape;
  Matrix qkv, heads_out;
  Real* sums; ///< [samples, heads, positions]
};

/// The same as they are saved, and what kernels take of them: the same memory, or copies in scratch.
struct Kept {
  Kept(const AttentionShape& shape, Precision precision, const Matrix& saved, Real* scratch)
      : real(shape, precision == Precision::single ? saved.data() : scratch),
        qkv(precision, saved.data(), real.places(), 3 * shape.width),
        heads_out(qkv.inRowsOf(shape.width).rowsFrom(3 * real.places(), real.places())) {
    if (precision != Precision::single)
      real.sums = saved.data() + roomOf(4 * shape.width * shape.positions, precision) * shape.samples;
  }
  Buffers real;
  TypedMatrix qkv, heads_out;
};

/// Calls `body` with a compile-time bound on the width of a head.
template <class Body>
void withBound(std::int64_t width, const Body& body) {
  static_assert(most_head_width == 256);
  if (width <= 64) return body(std::integral_constant<int, 64>());
  if (width <= 128) return body(std::integral_constant<int, 128>());
  body(std::integral_constant<int, 256>());
}

template <int Bound>
void attend(const ExecSpace& space, const Buffers& kept, Real* scratch) {
  const AttentionShape& shape = kept.shape;
  if constexpr (row_teams) {
    using Kernel = attention_teams::Forward<Bound>;
    Kokkos::parallel_for("partita::Attention::forward_kernel",
                         attention_teams::teams<Bound>(space, shape, Kernel::scratch),
                         Kernel{shape, kept.qkv.data(), kept.heads_out.data(), kept.sums});
  } else {
    Kokkos::parallel_for(
        "partita::Attention::forward_kernel", Range(space, 0, shape.samples * shape.heads),
        AttentionForward<Bound>{shape, kept.qkv.data(), kept.heads_out.data(), kept.sums, scratch});
  }
}

template <int Bound>
void attendBack(const ExecSpace& space, const Buffers& kept, const Buffers& grads) {
  const AttentionShape& shape = kept.shape;
  if constexpr (row_teams) {
    using Queries = attention_teams::Backward<true, Bound>;
    using Keys = attention_teams::Backward<false, Bound>;
    const Team teams = attention_teams::teams<Bound>(space, shape, Queries::scratch);
    Kokkos::parallel_for(
        "partita::Attention::backward_queries_kernel", teams,
        Queries{shape, kept.qkv.data(), kept.sums, grads.heads_out.data(), grads.sums, grads.qkv.data()});
    Kokkos::parallel_for(
        "partita::Attention::backward_keys_kernel", teams,
        Keys{shape, kept.qkv.data(), kept.sums, grads.heads_out.data(), grads.sums, grads.qkv.data()});
  } else {
    Kokkos::parallel_for("partita::Attention::backward_kernel", Range(space, 0, shape.samples * shape.heads),
                         AttentionBackward<Bound>{shape, kept.qkv.data(), kept.sums, grads.heads_out.data(),
                                                  grads.sums, grads.qkv.data()});
  }
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
  projection.weights.forward(space, in, out,
                             {projection.bias.values(space).data(), false, projection.bias.stored().data});
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
  const AttentionShape shape = shapeOf(in);
  Real *const sums = pass.work.data(), *const copies = sums + shape.samples * _heads * shape.positions;
  const Kept kept(shape, _plan.activations, saved, copies);
  project(space, _inward, in.inRowsOf(_width), kept.qkv);
  {
    const Region region(space, "partita::Attention::forward", Phase::elementwise);
    if (kept.qkv.half()) convert(space, kept.qkv.values(), kept.real.qkv);
    withBound(shape.headWidth(), [&](auto bound) { attend<decltype(bound)::value>(space, kept.real, sums); });
    if (kept.qkv.half()) convert(space, kept.real.heads_out, kept.heads_out.values());
  }
  project(space, _outward, kept.heads_out, out.inRowsOf(_width));
}

void Attention::backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& samples_in,
                         const TypedMatrix&, const Matrix& saved, const TypedMatrix& samples_grad_out,
                         const TypedMatrix& samples_grad_in) {
  const AttentionShape shape = shapeOf(samples_in);
  const Buffers grads(shape, pass.work.data());
  const Kept kept(shape, _plan.activations, saved, grads.sums + shape.samples * _heads * shape.positions);
  const TypedMatrix in = samples_in.inRowsOf(_width), grad_out = samples_grad_out.inRowsOf(_width),
                    grad_in = samples_grad_in.inRowsOf(_width);
  const bool parameters_last = pass.inputGradientFirst();
  if (!parameters_last) addGradients(space, _outward, pass.accumulate, kept.heads_out, grad_out);
  _outward.weights.inputGradient(space, grad_out, grads.heads_out, !parameters_last);
  {
    const Region region(space, "partita::Attention::backward", Phase::elementwise);
    if (kept.qkv.half()) {
      convert(space, kept.qkv.values(), kept.real.qkv);
      convert(space, kept.heads_out.values(), kept.real.heads_out);
    }
    forEachRun(space, "partita::Attention::along_kernel", shape.samples * _heads, shape.positions,
               AttentionAlong{shape, kept.real.heads_out.data(), grads.heads_out.data(), grads.sums});
    withBound(shape.headWidth(),
              [&](auto bound) { attendBack<decltype(bound)::value>(space, kept.real, grads); });
  }
  if (!parameters_last) addGradients(space, _inward, pass.accumulate, in, grads.qkv);
  _inward.weights.inputGradient(space, grads.qkv, grad_in, !parameters_last);
  if (!parameters_last) return;
  pass.reportInputGradient();
  addGradients(space, _outward, pass.accumulate, kept.heads_out, grad_out);
  addGradients(space, _inward, pass.accumulate, in, grads.qkv);
}

} // namespace partita
