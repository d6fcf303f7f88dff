#include "partita/kernels/winograd.hpp"

#include "partita/core/error.hpp"
#include "partita/core/region.hpp"
#include "partita/core/typed_matrix.hpp"
#include "partita/kernels/winograd_tiles.hpp"

#include <algorithm>

namespace partita::winograd {

#ifdef PARTITA_LANE_VECTORS

namespace {

/// Weights [outputs, inputs, taps] or, for the gradient of the input, the same with the two exchanged and
/// windows turned round; distances in values.
struct Weights {
  const Real* values;
  std::int64_t inputs, outputs, input_step, output_step;
  bool turned;
};

/// to [strips, points, inputs, outputs of the strip] = the transformed weights.
template <int Axes>
struct TransformWeights {
  static constexpr int points = powerOf(4, Axes), taps = powerOf(3, Axes);
  Weights weights;
  Real* to;

  /// An item is a block of inputs.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    forOutputStrips(weights.outputs,
                    [&](const auto& sums, std::int64_t output) { strip(sums, item * block_inputs, output); });
  }

 private:
  /// Weights are first copied, because neighbours in memory are not neighbouring outputs.
  template <class S>
  KOKKOS_INLINE_FUNCTION void strip(const S&, std::int64_t begin, std::int64_t output) const {
    const Weights w = weights;
    const std::int64_t inputs = w.inputs - begin < block_inputs ? w.inputs - begin : block_inputs,
                       outputs = w.outputs - output < S::width ? w.outputs - output : S::width;
    Real copy[block_inputs][taps][S::width];
    for (std::int64_t o = 0; o < S::width; ++o) {
      for (std::int64_t i = 0; i < inputs; ++i) {
        const Real* from = w.values + (begin + i) * w.input_step + (output + o) * w.output_step;
        for (int t = 0; t < taps; ++t)
          copy[i][t][o] = o < outputs ? from[w.turned ? taps - 1 - t : t] : Real(0);
      }
    }
    for (std::int64_t i = 0; i < inputs; ++i)
      transform(copy[i], to + points * w.inputs * output + (begin + i) * S::width, w.inputs * S::width);
  }

  template <std::int64_t Width>
  KOKKOS_FORCEINLINE_FUNCTION static void transform(const Real (&from)[taps][Width], Real* own,
                                                    std::int64_t step) {
    forLanes(0, Width, [&](auto lanes, std::int64_t o) {
      using L = decltype(lanes);
      transformCube<WeightRule, Axes, typename L::Values>(
          [&](int z, int y, int x) { return L::load(from[(z * 3 + y) * 3 + x] + o); },
          [&](int z, int y, int x, const auto& value) {
            L::store(own + pointAt(z, y, x) * step + o, value);
          });
    });
  }
};

/// The products of transformed tiles and weights, transformed to outputs.
template <int Axes>
struct Multiply {
  static constexpr int points = powerOf(4, Axes), places = powerOf(2, Axes);
  static constexpr std::int64_t group =
      Axes == 3 ? 6 : 12; // tiles of an item: their products fit into a cache
  Tiles<Axes> tiles;
  const Real *transformed, *weights, *bias; // see TransformInputs; see TransformWeights; or null
  Real* out;
  std::int64_t first, count, point_step, inputs, outputs;
  bool relu;

  KOKKOS_INLINE_FUNCTION std::int64_t groups() const { return (count + group - 1) / group; }

  /// An item is a group of tiles and a strip of outputs; neighbours have the same strip.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t number = item / groups(), begin = (item - number * groups()) * group;
    forOutputStrip(number, outputs,
                   [&](const auto& sums, std::int64_t output) { strip(sums, begin, output); });
  }

 private:
  template <class S>
  KOKKOS_INLINE_FUNCTION void strip(const S& sums, std::int64_t begin, std::int64_t output) const {
    const std::int64_t left = count - begin < group ? count - begin : group;
    alignas(64) Real products[points][group][S::width];
    for (std::int64_t p = 0; p < points; ++p) {
      const Real *of_tiles = transformed + p * point_step + begin * inputs,
                 *of_weights = weights + points * inputs * output + p * inputs * S::width;
      std::int64_t tile = 0;
      for (; tile + 6 <= left; tile += 6) multiply<6>(sums, of_tiles, of_weights, tile, products[p]);
      for (; tile + 2 <= left; tile += 2) multiply<2>(sums, of_tiles, of_weights, tile, products[p]);
      for (; tile < left; ++tile) multiply<1>(sums, of_tiles, of_weights, tile, products[p]);
    }
    for (std::int64_t tile = 0; tile < left; ++tile) put(products, tile, begin, output);
  }

  template <int Count, class S>
  KOKKOS_FORCEINLINE_FUNCTION void multiply(const S&, const Real* of_tiles, const Real* of_weights,
                                            std::int64_t tile, Real (*products)[S::width]) const {
    S sums[Count];
    const Real none[S::width] = {};
    PARTITA_UNROLL
    for (int i = 0; i < Count; ++i) sums[i].load(none);
    const std::int64_t depth = inputs;
    const Real* from = of_tiles + tile * depth;
    for (std::int64_t k = 0; k < depth; ++k, of_weights += S::width) {
      S factors;
      factors.load(of_weights);
      PARTITA_UNROLL
      for (int i = 0; i < Count; ++i) sums[i].add(from[i * depth + k], factors);
    }
    PARTITA_UNROLL
    for (int i = 0; i < Count; ++i) sums[i].store(products[tile + i]);
  }

  /// The outputs of a tile that exist, with the bias and ReLU.
  template <std::int64_t Width>
  KOKKOS_INLINE_FUNCTION void put(const Real (&products)[points][group][Width], std::int64_t index,
                                  std::int64_t begin, std::int64_t output) const {
    const auto tile = tiles.tile(first + begin + index);
    const Grid& grid = tiles.out;
    Real* at[places]; // null: outside
    forCube<2, Axes>([&](int i, int z, int y, int x) {
      const std::int64_t place[3] = {tile.first[0] + z, tile.first[1] + y, tile.first[2] + x};
      bool inside = true;
      std::int64_t offset = tile.image * grid.image;
      for (int a = 3 - Axes; a < 3; ++a) {
        inside = inside && place[a] < grid.extents[a];
        offset += place[a] * grid.steps[a];
      }
      at[i] = inside ? out + offset * outputs + output : nullptr;
    });
    const std::int64_t left = outputs - output;
    forLanes(0, left < Width ? left : Width, [&](auto lanes, std::int64_t o) {
      using L = decltype(lanes);
      const auto shift = bias != nullptr ? L::load(bias + output + o) : L::all(0);
      transformCube<OutputRule, Axes, typename L::Values>(
          [&](int z, int y, int x) { return L::load(products[pointAt(z, y, x)][index] + o); },
          [&](int z, int y, int x, auto value) {
            value += shift;
            if (relu) value = value <= L::all(0) ? L::all(0) : value; // NaN stays NaN
            Real* to = at[(z * 2 + y) * 2 + x];
            if (to != nullptr) L::store(to + o, value);
          });
    });
  }
};

/// What is read and written.
struct Operands {
  const Real *in, *bias;
  Real* out;
  std::int64_t images;
  bool relu;
};

template <int Axes>
void convolve(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work,
              const Tiles<Axes>& tiles, const Weights& weights, const Operands& operands,
              const Between& between) {
  Real* const zeros = alignedIn(work.data());
  const std::int64_t place = plan.winogradPlace();
  Real *const of_weights = zeros + place, *const of_tiles = of_weights + plan.winogradWeights();
  Kokkos::deep_copy(space, Vector(zeros, static_cast<std::size_t>(place)), Real(0));
  Kokkos::parallel_for("partita::winograd::weights_kernel", Range(space, 0, blocksOf(weights.inputs)),
                       TransformWeights<Axes>{weights, of_weights});
  const std::int64_t all = operands.images * tiles.ofImage(), at_once = plan.winogradTiles();
  for (std::int64_t first = 0; first < all; first += at_once) {
    const std::int64_t count = std::min(at_once, all - first), step = pointStep(count, weights.inputs);
    Kokkos::parallel_for(
        "partita::winograd::inputs_kernel", Range(space, 0, count),
        TransformInputs<Axes>{tiles, operands.in, zeros, of_tiles, first, step, weights.inputs});
    const Multiply<Axes> multiply{tiles, of_tiles, of_weights,     operands.bias,   operands.out, first,
                                  count, step,     weights.inputs, weights.outputs, operands.relu};
    Kokkos::parallel_for("partita::winograd::multiply_kernel",
                         Range(space, 0, multiply.groups() * stripsOf(weights.outputs)), multiply);
    if (between) between();
  }
}

template <int Axes>
void convolveForward(const ExecSpace& space, const ConvolutionPlan& plan, const ConvolutionBlock* block,
                     const Vector& work, const Matrix& in, const Matrix& weight, const Matrix& out,
                     const ProductEpilogue& epilogue, const Between& between) {
  Tiles<Axes> tiles = tilesOf<Axes>(block != nullptr ? block->plan.windows : plan.windows);
  Operands operands{in.data(), epilogue.bias, out.data(), static_cast<std::int64_t>(in.extent(0)),
                    epilogue.relu};
  if (block != nullptr) {
    const Grid whole_in = wholeGrid(plan.windows.in), whole_out = wholeGrid(plan.windows.out);
    std::copy_n(whole_in.steps, 3, tiles.in.steps);
    std::copy_n(whole_out.steps, 3, tiles.out.steps);
    tiles.in.image = whole_in.image;
    tiles.out.image = whole_out.image;
    operands.in += block->first_in * plan.in_channels;
    operands.out += block->first_out * plan.out_channels;
  }
  const std::int64_t taps = plan.windows.taps();
  convolve(space, plan, work, tiles,
           {weight.data(), plan.in_channels, plan.out_channels, taps, taps * plan.in_channels, false},
           operands, between);
}

template <int Axes>
void convolveBackward(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work,
                      const ConvolveGradients& gradients) {
  WindowPlan w = plan.windows; // seen from the gradient of the outputs
  std::swap(w.in, w.out);
  for (int a = 3 - Axes; a < 3; ++a) w.before[a] = 2 - w.before[a];
  const std::int64_t taps = w.taps();
  const Matrix weight = gradients.weight.real(), grad = gradients.grad.real(),
               grad_in = gradients.grad_in.real();
  convolve(space, plan, work, tilesOf<Axes>(w),
           {weight.data(), plan.out_channels, plan.in_channels, taps * plan.in_channels, taps, true},
           {grad.data(), nullptr, grad_in.data(), gradients.grad.rows, false}, {});
}

} // namespace

bool convolves(const ConvolutionPlan& plan) {
  return !row_teams && plan.winograd();
}

void forward(const ExecSpace& space, const ConvolutionPlan& plan, const ConvolutionBlock* block,
             const Vector& work, const Matrix& in, const Matrix& weight, const Matrix& out,
             const ProductEpilogue& epilogue, const Between& between) {
  const Region region(space, "partita::winograd::forward", Phase::gemm);
  const auto run = plan.windows.flat() ? convolveForward<2> : convolveForward<3>;
  run(space, plan, block, work, in, weight, out, epilogue, between);
}

void inputGradient(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work,
                   const ConvolveGradients& gradients) {
  const Region region(space, "partita::winograd::input_gradient", Phase::gemm);
  const auto run = plan.windows.flat() ? convolveBackward<2> : convolveBackward<3>;
  run(space, plan, work, gradients);
}

#else

bool convolves(const ConvolutionPlan&) {
  return false;
}

void forward(const ExecSpace&, const ConvolutionPlan&, const ConvolutionBlock*, const Vector&, const Matrix&,
             const Matrix&, const Matrix&, const ProductEpilogue&, const Between&) {
  PARTITA_FAIL("this build has no kernels for Winograd's convolutions");
}

void inputGradient(const ExecSpace&, const ConvolutionPlan&, const Vector&, const ConvolveGradients&) {
  PARTITA_FAIL("this build has no kernels for Winograd's convolutions");
}

#endif

} // namespace partita::winograd
