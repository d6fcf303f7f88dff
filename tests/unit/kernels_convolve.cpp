#include "partita/kernels/convolve.hpp"
#include "partita/kernels/onednn_convolve.hpp"
#include "partita/plan/network_plan.hpp"

#include <algorithm>
#include <functional>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::kernels_convolve {

namespace {

constexpr DefaultSpace space;

struct Case {
  Shape in;
  std::int64_t channels;
  AxisSizes kernel, padding{{0}}, stride{{1}}, dilation{{1}};
  std::int64_t groups = 1, rows = 3;
};

ConvolutionPlan planOf(const Case& c) {
  LayerSpec spec, last;
  spec.type = isVolume(c.in) ? "conv3d" : "conv2d";
  spec.convolution.channels = c.channels;
  spec.convolution.kernel = c.kernel;
  spec.convolution.padding = c.padding;
  spec.convolution.stride = c.stride;
  spec.convolution.dilation = c.dilation;
  spec.convolution.groups = c.groups;
  NetworkSection network;
  network.layers = {spec, last};
  return ConvolutionPlan(planNetwork(network, c.in, 2).front());
}

/// The shapes for which libraries are taken, and those for which they are not.
std::vector<Case> cases() {
  return {{{16, 6, 7}, 16, {{3}}, {{1}}},
          {{32, 9, 8}, 48, {{3}}, {{1}}, {{2}}},
          {{16, 7, 7}, 32, {{3, 2}}, {{0}, true}, {{2}}},
          {{16, 9, 9}, 16, {{3}}, {{2}}, {{1}}, {{2}}},
          {{20, 8, 8}, 50, {{5}}},
          {{17, 6, 5}, 16, {{2}}},
          {{16, 6, 6}, 16, {{3}}, {{1}}, {{1}}, {{1}}, 2},
          {{3, 8, 8}, 16, {{3}}},
          {{2, 20, 30}, 5, {{5}}},
          {{3, 9, 9}, 4, {{4}}, {{1}}, {{2, 1}}},
          {{16, 5, 5}, 16, {{1}}, {{0}}, {{2}}},
          {{64, 5, 5}, 32, {{1}}},
          {{16, 4, 5, 6}, 32, {{3}}, {{1}}},
          {{16, 5, 4, 4}, 16, {{2, 3, 1}}, {{1, 1, 0}}, {{2, 1, 1}}},
          {{16, 128, 120}, 16, {{3}}, {{1}}, {{1}}, {{1}}, 1, 3}}; // two rows at a time, then one
}

/// Calls body(row, channel out, place out, channel in, place in, index of the weight) for each product.
template <class Body>
void eachProduct(const ConvolutionPlan& plan, std::int64_t rows, const Body& body) {
  const WindowPlan& w = plan.windows;
  const std::int64_t ins = plan.in_channels / plan.groups, outs = plan.out_channels / plan.groups;
  for (std::int64_t place = 0; place < w.outPlaces(); ++place) {
    const std::int64_t at[3] = {place / (w.out[1] * w.out[2]), place / w.out[2] % w.out[1], place % w.out[2]};
    for (std::int64_t tap = 0; tap < w.taps(); ++tap) {
      const std::int64_t t[3] = {tap / (w.kernel[1] * w.kernel[2]), tap / w.kernel[2] % w.kernel[1],
                                 tap % w.kernel[2]};
      std::int64_t from[3];
      bool inside = true;
      for (int a = 0; a < 3; ++a) {
        from[a] = at[a] * w.stride[a] + t[a] * w.dilation[a] - w.before[a];
        inside = inside && from[a] >= 0 && from[a] < w.in[a];
      }
      if (!inside) continue;
      const std::int64_t source = (from[0] * w.in[1] + from[1]) * w.in[2] + from[2];
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t o = 0; o < plan.out_channels; ++o)
          for (std::int64_t i = 0; i < ins; ++i)
            body(row, o, place, o / outs * ins + i, source, (o * ins + i) * w.taps() + tap);
    }
  }
}

struct Results {
  Values out, weight_gradient, input_gradient;
};

struct Operands {
  Values in, weight, grad, before;
};

std::size_t size(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

Operands operandsOf(const ConvolutionPlan& plan, std::int64_t rows, Precision precision) {
  const auto exact = [&](std::int64_t count, std::uint64_t seed) {
    const Matrix values = matrixOf(1, count, normals(count, seed));
    roundTo(space, precision, values);
    return valuesOf(values);
  };
  const std::int64_t weights = plan.out_channels * plan.depth();
  return {exact(rows * plan.in_channels * plan.windows.inPlaces(), 1), exact(weights, 2),
          exact(rows * plan.out_channels * plan.windows.outPlaces(), 3), exact(weights, 4)};
}

Results byHand(const ConvolutionPlan& plan, std::int64_t rows, const Operands& x) {
  const std::int64_t in_places = plan.windows.inPlaces(), out_places = plan.windows.outPlaces();
  Results r{Values(x.grad.size()), x.before, Values(x.in.size())};
  eachProduct(plan, rows, [&](auto row, auto o, auto place, auto i, auto source, auto weight) {
    const std::size_t out = size((row * plan.out_channels + o) * out_places + place),
                      in = size((row * plan.in_channels + i) * in_places + source);
    r.out[out] += x.in[in] * x.weight[size(weight)];
    r.weight_gradient[size(weight)] += x.in[in] * x.grad[out];
    r.input_gradient[in] += x.weight[size(weight)] * x.grad[out];
  });
  return r;
}

/// By the class, which adds to the gradients that are there.
Results computed(const ConvolutionPlan& plan, std::int64_t rows, const Operands& x, Precision precision) {
  const Convolve convolve(plan, precision);
  const std::int64_t in_width = plan.in_channels * plan.windows.inPlaces(),
                     out_width = plan.out_channels * plan.windows.outPlaces();
  const Vector work("partita::test::work", size(plan.workValues(rows)));
  const Matrix in = matrixOf(rows, in_width, x.in), grad = matrixOf(rows, out_width, x.grad),
               weight = matrixOf(plan.out_channels, plan.depth(), x.weight),
               weight_gradient = matrixOf(plan.out_channels, plan.depth(), x.before),
               out = makeMatrix("partita::test::out", rows, out_width),
               grad_in = makeMatrix("partita::test::grad_in", rows, in_width);
  const auto copy = [&](const ConvolveSums& sums) {
    for (std::int64_t r = 0; r < sums.rows; ++r)
      for (std::int64_t c = 0; c < plan.out_channels; ++c) {
        const std::int64_t places = plan.windows.outPlaces();
        const Vector from(sums.data + r * sums.row_stride + c * sums.channel_stride, size(places)),
            to(out.data() + ((sums.first + r) * plan.out_channels + c) * places, size(places));
        if (from.data() != to.data()) Kokkos::deep_copy(to, from);
      }
  };
  convolve.forward(space, work, in, weight, out, std::ref(copy));
  convolve.backward(space, work, true, in, weight, grad, weight_gradient, grad_in);
  fence(space, "partita::test");
  return {valuesOf(out), valuesOf(weight_gradient), valuesOf(grad_in)};
}

} // namespace

TEST_CASE("A convolution and its gradients are those of plain loops", "[kernels]") {
  for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
    for (const Case& c : cases()) {
      const ConvolutionPlan plan = planOf(c);
      INFO(toText(c.in) << " to " << c.channels << ", groups " << c.groups << ", precision "
                        << static_cast<int>(precision) << ", by a library "
                        << onednn::convolves(plan, precision, c.rows));
      const Operands x = operandsOf(plan, c.rows, precision);
      const Results found = computed(plan, c.rows, x, precision), expected = byHand(plan, c.rows, x);
      const double tolerance = sizeof(Real) == 4 ? 5e-6 : 1e-13;
      CHECK(relativeError(found.out, expected.out) < tolerance);
      CHECK(relativeError(found.weight_gradient, expected.weight_gradient) < tolerance);
      CHECK(relativeError(found.input_gradient, expected.input_gradient) < tolerance);
    }
  }
}

TEST_CASE("A convolution has the same bits each time", "[kernels]") {
  for (const Precision precision : {Precision::single, Precision::bf16}) {
    const ConvolutionPlan plan = planOf({{32, 14, 14}, 32, {{3}}, {{1}}});
    const Operands x = operandsOf(plan, 9, precision);
    const Results first = computed(plan, 9, x, precision), again = computed(plan, 9, x, precision);
    CHECK(first.out == again.out);
    CHECK(first.weight_gradient == again.weight_gradient);
    CHECK(first.input_gradient == again.input_gradient);
  }
}

TEST_CASE("Few rows are packed at once, and about as many each time", "[kernels]") {
  const ConvolutionPlan plan = planOf({{64, 56, 56}, 64, {{3}}, {{1}}});
  CHECK(plan.packable());
  CHECK(plan.packedRows(1) == 1);
  CHECK(plan.packedRows(1000) == 2);
  CHECK(plan.workValues(1000) == plan.workValues(100));
  const ConvolutionPlan small = planOf({{32, 14, 14}, 32, {{3}}, {{1}}});
  CHECK(small.packedRows(128) == 64); // not 83 and 45
  CHECK(small.packedRows(0) == 0);
  CHECK_FALSE(planOf({{64, 5, 5}, 32, {{1}}}).packable());
  CHECK_FALSE(planOf({{3, 8, 8}, 16, {{3}}}).packable());
  CHECK_FALSE(onednn::convolves(small, Precision::single, 0));
}

} // namespace partita::test::kernels_convolve
