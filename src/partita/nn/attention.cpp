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

struct AddBias {
  Matrix out;
  Vector bias;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const { out(i, j) += bias(j); }
};

struct BiasGradient {
  Matrix grad;
  KOKKOS_INLINE_FUNCTION Real operator()(std::int64_t i, std::int64_t j) const { return grad(i, j); }
};

/// The parts of `saved` and `work` in one call, for `places` positions in all.
struct Buffers {
  Buffers(std::int64_t rows, std::int64_t all_places, std::int64_t width, std::int64_t heads, Real* memory)
      : places(all_places), qkv(memory, places, 3 * width),
        heads_out(memory + 3 * places * width, places, width),
        sums(memory + 4 * places * width), shape{rows, places / rows, heads, width} {}
  std::int64_t places;
  Matrix qkv, heads_out; ///< or their gradients
  Real* sums;            ///< [samples, heads, positions]
  AttentionShape shape;
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

void Attention::project(const ExecSpace& space, const Projection& projection, const Matrix& in,
                        const Matrix& out) {
  const Vector bias = projection.bias.values(space);
  const bool fused = fusesEpilogues();
  projection.weights.forward(space, in, out, {fused ? bias.data() : nullptr});
  if (fused || bias.size() == 0) return;
  const Region region(space, "partita::Attention::bias", Phase::elementwise);
  forEachElement(space, "partita::Attention::bias_kernel", out.extent(0), out.extent(1), AddBias{out, bias});
}

void Attention::addGradients(const ExecSpace& space, const Projection& projection, bool accumulate,
                             const Matrix& in, const Matrix& grad_out) {
  projection.weights.addGradient(space, accumulate, in, grad_out);
  if (projection.bias.stored().size == 0) return;
  const Region region(space, "partita::Attention::bias_gradient", Phase::elementwise);
  sumColumns(space, "partita::Attention::bias_gradient_kernel", grad_out.extent(0), grad_out.extent(1),
             BiasGradient{grad_out}, projection.bias.gradient(space, accumulate).data(), accumulate);
  projection.bias.storeGradient(space);
}

void Attention::forward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                        const Matrix& saved) {
  const std::int64_t places = in.size() / _width;
  const Buffers kept(in.extent(0), places, _inner, _heads, saved.data());
  project(space, _inward, Matrix(in.data(), kept.places, _width), kept.qkv);
  {
    const Region region(space, "partita::Attention::forward", Phase::elementwise);
    withBound(kept.shape.headWidth(),
              [&](auto bound) { attend<decltype(bound)::value>(space, kept, pass.work.data()); });
  }
  project(space, _outward, kept.heads_out, Matrix(out.data(), kept.places, _width));
}

void Attention::backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix&,
                         const Matrix& saved, const Matrix& samples_grad_out, const Matrix& samples_grad_in) {
  const std::int64_t rows = in.extent(0), places = in.size() / _width;
  const Buffers kept(rows, places, _inner, _heads, saved.data()),
      grads(rows, places, _inner, _heads, pass.work.data());
  const Matrix rows_in(in.data(), places, _width), grad_out(samples_grad_out.data(), places, _width),
      grad_in = samples_grad_in.size() > 0 ? Matrix(samples_grad_in.data(), places, _width) : Matrix();
  const bool parameters_last = pass.inputGradientFirst();
  if (!parameters_last) addGradients(space, _outward, pass.accumulate, kept.heads_out, grad_out);
  _outward.weights.inputGradient(space, grad_out, grads.heads_out, !parameters_last);
  {
    const Region region(space, "partita::Attention::backward", Phase::elementwise);
    forEachRun(space, "partita::Attention::along_kernel", kept.shape.samples * _heads, kept.shape.positions,
               AttentionAlong{kept.shape, kept.heads_out.data(), grads.heads_out.data(), grads.sums});
    withBound(kept.shape.headWidth(),
              [&](auto bound) { attendBack<decltype(bound)::value>(space, kept, grads); });
  }
  if (!parameters_last) addGradients(space, _inward, pass.accumulate, rows_in, grads.qkv);
  _inward.weights.inputGradient(space, grads.qkv, grad_in, !parameters_last);
  if (!parameters_last) return;
  pass.reportInputGradient();
  addGradients(space, _outward, pass.accumulate, kept.heads_out, grad_out);
  addGradients(space, _inward, pass.accumulate, rows_in, grads.qkv);
}

} // namespace partita
