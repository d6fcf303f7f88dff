#include "partita/nn/attention.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/nn/attention_kernels.hpp"
#include "partita/nn/initialise.hpp"

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
  Buffers(const Matrix& in, std::int64_t width, std::int64_t heads, Real* memory)
      : places(in.size() / width), qkv(memory, places, 3 * width),
        heads_out(memory + 3 * places * width, places, width), sums(memory + 4 * places * width) {
    const std::int64_t rows = in.extent(0);
    shape = {rows, places / rows, heads, width};
  }
  std::int64_t places;
  Matrix qkv, heads_out; ///< or their gradients
  Real* sums;            ///< [samples, heads, positions]
  AttentionShape shape{};
};

/// Calls `body` with a compile-time bound on the width of a head.
template <class Body>
void withBound(std::int64_t width, const Body& body) {
  static_assert(most_head_width == 256);
  if (width <= 64) return body(std::integral_constant<int, 64>());
  if (width <= 128) return body(std::integral_constant<int, 128>());
  body(std::integral_constant<int, 256>());
}

std::int64_t tilesOf(const AttentionShape& shape, std::int64_t size) {
  return (shape.positions + size - 1) / size;
}

template <AttentionPart Part>
void addGradients(const ExecSpace& space, const Buffers& kept, const Buffers& grads) {
  withBound(kept.shape.headWidth(), [&](auto bound) {
    using Kernel = AttentionBackward<Part, decltype(bound)::value>;
    forEachRun(
        space, "partita::Attention::backward_kernel", kept.shape.samples * kept.shape.heads,
        tilesOf(kept.shape, Kernel::tile_size),
        Kernel{kept.shape, kept.qkv.data(), kept.sums, grads.heads_out.data(), grads.sums, grads.qkv.data()});
  });
}

} // namespace

Attention::Attention(const LayerPlan& plan)
    : PlannedLayer(plan), _width(plan.in[1]), _heads(plan.spec.attention.heads) {}

void Attention::bind(const LayerNumbers& numbers) {
  LayerTensors tensors(numbers);
  const auto take = [&](std::int64_t outputs) {
    Projection projection;
    projection.weights = tensors.weights(outputs, _width);
    if (_plan.spec.attention.bias) projection.bias = tensors.small(outputs);
    return projection;
  };
  _inward = take(3 * _width);
  _outward = take(_width);
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
  projection.weights.forward(space, in, out);
  if (projection.bias.stored().size == 0) return;
  const Region region(space, "partita::Attention::bias", Phase::elementwise);
  forEachElement(space, "partita::Attention::bias_kernel", out.extent(0), out.extent(1),
                 AddBias{out, projection.bias.values(space)});
}

void Attention::projectBack(const ExecSpace& space, const Projection& projection, bool accumulate,
                            const Matrix& in, const Matrix& grad_out, const Matrix& grad_in) {
  projection.weights.addGradient(space, accumulate, in, grad_out);
  if (projection.bias.stored().size > 0) {
    const Region region(space, "partita::Attention::bias_gradient", Phase::elementwise);
    sumColumns(space, "partita::Attention::bias_gradient_kernel", grad_out.extent(0), grad_out.extent(1),
               BiasGradient{grad_out}, projection.bias.gradient(space, accumulate).data(), accumulate);
    projection.bias.storeGradient(space);
  }
  if (grad_in.size() > 0) projection.weights.backward(space, grad_out, grad_in);
}

void Attention::forward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                        const Matrix& saved) {
  const Buffers kept(in, _width, _heads, saved.data());
  project(space, _inward, Matrix(in.data(), kept.places, _width), kept.qkv);
  {
    const Region region(space, "partita::Attention::forward", Phase::elementwise);
    withBound(kept.shape.headWidth(), [&](auto bound) {
      forEachRun(space, "partita::Attention::forward_kernel", kept.shape.samples * _heads,
                 tilesOf(kept.shape, detail::query_tile),
                 AttentionForward<decltype(bound)::value>{kept.shape, kept.qkv.data(), kept.heads_out.data(),
                                                          kept.sums, pass.work.data()});
    });
  }
  project(space, _outward, kept.heads_out, Matrix(out.data(), kept.places, _width));
}

void Attention::backward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix&,
                         const Matrix& saved, const Matrix& grad_out, const Matrix& grad_in) {
  const Buffers kept(in, _width, _heads, saved.data()), grads(in, _width, _heads, pass.work.data());
  projectBack(space, _outward, pass.accumulate, kept.heads_out, Matrix(grad_out.data(), kept.places, _width),
              grads.heads_out);
  {
    const Region region(space, "partita::Attention::backward", Phase::elementwise);
    forEachElement(space, "partita::Attention::along_kernel", kept.shape.samples * _heads,
                   kept.shape.positions,
                   AttentionAlong{kept.shape, kept.heads_out.data(), grads.heads_out.data(), grads.sums});
    if constexpr (device_is_host) {
      addGradients<AttentionPart::all>(space, kept, grads);
    } else {
      addGradients<AttentionPart::queries>(space, kept, grads);
      addGradients<AttentionPart::keys>(space, kept, grads);
    }
  }
  const bool wanted = grad_in.size() > 0;
  projectBack(space, _inward, pass.accumulate, Matrix(in.data(), kept.places, _width), grads.qkv,
              wanted ? Matrix(grad_in.data(), kept.places, _width) : Matrix());
}

} // namespace partita
