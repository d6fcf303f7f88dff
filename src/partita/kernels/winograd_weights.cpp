#include "partita/core/error.hpp"
#include "partita/core/region.hpp"
#include "partita/core/typed_matrix.hpp"
#include "partita/kernels/winograd.hpp"
#include "partita/kernels/winograd_tiles.hpp"

#include <algorithm>

namespace partita::winograd {

#ifdef PARTITA_LANE_VECTORS

namespace {

/// to [strips, points, tiles, outputs of the strip] = the transformed gradients of the outputs of tiles.
template <int Axes>
struct TransformGradients {
  static constexpr int points = powerOf(4, Axes);
  Tiles<Axes> tiles;
  const Real *grad, *zeros;
  Real* to;
  std::int64_t first, count, outputs;

  /// An item is a tile.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const auto tile = tiles.tile(first + item);
    const Real* from[powerOf(2, Axes)];
    placesIn<2, Axes>(tiles.out, grad, zeros, tile.image, tile.first, outputs, from);
    forOutputStrips(outputs, [&](const auto& sums, std::int64_t output) { strip(sums, from, item, output); });
  }

 private:
  template <class S>
  KOKKOS_INLINE_FUNCTION void strip(const S&, const Real* const (&from)[powerOf(2, Axes)], std::int64_t item,
                                    std::int64_t output) const {
    const std::int64_t step = pointStep(count, S::width),
                       end = output + S::width < outputs ? output + S::width : outputs;
    Real* own = to + gradientStrip(points, count, output) + item * S::width;
    forLanes(output, end, [&](auto lanes, std::int64_t o) {
      using L = decltype(lanes);
      transformCube<GradientRule, Axes, typename L::Values>(
          [&](int z, int y, int x) { return L::load(from[(z * 2 + y) * 2 + x] + o); },
          [&](int z, int y, int x, const auto& value) {
            L::store(own + pointAt(z, y, x) * step + (o - output), value);
          });
    });
    for (std::int64_t p = 0; p < points; ++p)
      for (std::int64_t o = end - output; o < S::width; ++o) own[p * step + o] = 0;
  }
};

/// sums [strips, points, inputs, outputs of the strip]: products of transformed inputs and gradients, added
/// up over some tiles.
template <int Axes>
struct AddProducts {
  static constexpr int points = powerOf(4, Axes);
  const Real *of_inputs, *of_gradients; // see TransformInputs, TransformGradients
  Real* sums;
  bool add; // to what is there
  std::int64_t count, inputs, outputs, at_once;

  KOKKOS_INLINE_FUNCTION std::int64_t parts() const { return (inputs + at_once - 1) / at_once; }

  /// An item is some inputs at a point, and a strip of outputs.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t row = item / parts(), first = (item - row * parts()) * at_once, number = row / points,
                       point = row - number * points;
    forOutputStrip(number, outputs, [&](const auto& strip, std::int64_t output) {
      if (at_once == 4)
        tile<4>(strip, point, first, output);
      else if (at_once == 5)
        tile<5>(strip, point, first, output);
      else
        tile<6>(strip, point, first, output);
    });
  }

 private:
  template <int Count, class S>
  KOKKOS_INLINE_FUNCTION void tile(const S&, std::int64_t point, std::int64_t first,
                                   std::int64_t output) const {
    const std::int64_t left = inputs - first < Count ? inputs - first : Count, step = inputs;
    Real* to = sums + points * inputs * output + (point * inputs + first) * S::width;
    const Real none[S::width] = {};
    S own[Count];
    std::int64_t at[Count];
    PARTITA_UNROLL
    for (int i = 0; i < Count; ++i) {
      at[i] = i < left ? i : 0;
      own[i].load(add && i < left ? to + i * S::width : none);
    }
    const Real *from = of_inputs + point * pointStep(count, inputs) + first,
               *grad =
                   of_gradients + gradientStrip(points, count, output) + point * pointStep(count, S::width);
    for (std::int64_t t = 0; t < count; ++t, from += step, grad += S::width) {
      S factors;
      factors.load(grad);
      PARTITA_UNROLL
      for (int i = 0; i < Count; ++i) own[i].add(from[at[i]], factors);
    }
    PARTITA_UNROLL
    for (int i = 0; i < Count; ++i)
      if (i < left) own[i].store(to + i * S::width);
  }
};

/// gradient [outputs, inputs, taps] = the sums, transformed.
template <int Axes>
struct UnpackGradient {
  static constexpr int points = powerOf(4, Axes), taps = powerOf(3, Axes);
  const Real* sums;
  Real* gradient;
  std::int64_t inputs, outputs;
  bool accumulate;

  /// An item is a block of inputs.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    forOutputStrips(
        outputs, [&](const auto& strip, std::int64_t output) { unpack(strip, item * block_inputs, output); });
  }

 private:
  template <class S>
  KOKKOS_INLINE_FUNCTION void unpack(const S&, std::int64_t begin, std::int64_t output) const {
    const std::int64_t left = inputs - begin < block_inputs ? inputs - begin : block_inputs,
                       end = outputs - output < S::width ? outputs - output : S::width;
    Real copy[block_inputs][taps][S::width];
    for (std::int64_t i = 0; i < left; ++i)
      transform(sums + points * inputs * output + (begin + i) * S::width, inputs * S::width, copy[i]);
    for (std::int64_t o = 0; o < end; ++o) {
      Real* to = gradient + ((output + o) * inputs + begin) * taps;
      for (std::int64_t i = 0; i < left; ++i)
        for (int t = 0; t < taps; ++t)
          to[i * taps + t] = copy[i][t][o] + (accumulate ? to[i * taps + t] : Real(0));
    }
  }

  template <std::int64_t Width>
  KOKKOS_FORCEINLINE_FUNCTION static void transform(const Real* own, std::int64_t step,
                                                    Real (&to)[taps][Width]) {
    forLanes(0, Width, [&](auto lanes, std::int64_t o) {
      using L = decltype(lanes);
      transformCube<WeightGradientRule, Axes, typename L::Values>(
          [&](int z, int y, int x) { return L::load(own + pointAt(z, y, x) * step + o); },
          [&](int z, int y, int x, const auto& value) { L::store(to[(z * 3 + y) * 3 + x] + o, value); });
    });
  }
};

template <int Axes>
void addUp(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work,
           const ConvolveGradients& gradients) {
  const Matrix in = gradients.in.real(), grad = gradients.grad.real();
  const Tiles<Axes> tiles = tilesOf<Axes>(plan.windows);
  Real* const zeros = alignedIn(work.data());
  const std::int64_t place = plan.winogradPlace(), at_once = plan.winogradTiles(), inputs = plan.in_channels,
                     outputs = plan.out_channels;
  Real *const sums = zeros + place, *const of_inputs = sums + plan.winogradWeights(),
              *const of_gradients = of_inputs + tiles.points * pointStep(at_once, inputs);
  Kokkos::deep_copy(space, Vector(zeros, static_cast<std::size_t>(place)), Real(0));
  const std::int64_t each = narrow::sumsAtOnce(inputs, 4);
  const std::int64_t all = gradients.in.rows * tiles.ofImage();
  for (std::int64_t first = 0; first < all; first += at_once) {
    const std::int64_t count = std::min(at_once, all - first), step = pointStep(count, inputs);
    Kokkos::parallel_for("partita::winograd::inputs_kernel", Range(space, 0, count),
                         TransformInputs<Axes>{tiles, in.data(), zeros, of_inputs, first, step, inputs});
    Kokkos::parallel_for(
        "partita::winograd::gradients_kernel", Range(space, 0, count),
        TransformGradients<Axes>{tiles, grad.data(), zeros, of_gradients, first, count, outputs});
    const AddProducts<Axes> add{of_inputs, of_gradients, sums, first > 0, count, inputs, outputs, each};
    Kokkos::parallel_for("partita::winograd::products_kernel",
                         Range(space, 0, add.parts() * tiles.points * stripsOf(outputs)), add);
    if (gradients.between) gradients.between();
  }
  Kokkos::parallel_for("partita::winograd::unpack_kernel", Range(space, 0, blocksOf(inputs)),
                       UnpackGradient<Axes>{sums, gradients.weight_gradient.real().data(), inputs, outputs,
                                            gradients.accumulate});
}

} // namespace

void weightGradient(const ExecSpace& space, const ConvolutionPlan& plan, const Vector& work,
                    const ConvolveGradients& gradients) {
  const Region region(space, "partita::winograd::weight_gradient", Phase::gemm);
  const auto run = plan.windows.flat() ? addUp<2> : addUp<3>;
  run(space, plan, work, gradients);
}

#else

void weightGradient(const ExecSpace&, const ConvolutionPlan&, const Vector&, const ConvolveGradients&) {
  PARTITA_FAIL("this build has no kernels for Winograd's convolutions");
}

#endif

} // namespace partita::winograd
