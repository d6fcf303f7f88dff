#include "partita/kernels/columns.hpp"
#include "partita/kernels/convolve.hpp"
#include "partita/kernels/cudnn_convolve.hpp"
#include "partita/kernels/onednn_convolve.hpp"
#include "partita/kernels/onednn_products.hpp"
#include "partita/kernels/packed_weights.hpp"
#include "partita/kernels/winograd.hpp"
#include "partita/plan/network_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/images.hpp"
#include "support/regions.hpp"

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
  return {
      {{16, 6, 7}, 16, {{3}}, {{1}}},
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
      {{16, 128, 120}, 16, {{3}}, {{1}}, {{1}}, {{1}}, 1, 3}, // two rows at a time, then one
      // more or fewer channels than fill vectors, tiles that end outside, padding of no and of many places
      {{19, 7, 8}, 37, {{3}}, {{1}}},
      {{70, 5, 9}, 130, {{3}}, {{1}}, {{1}}, {{1}}, 1, 2},
      {{16, 12, 10}, 16, {{3}}, {{3}}},
      {{24, 33, 31}, 20, {{3}}}, // several times as many tiles as are computed at once
      // its transformed tiles need more scratch than anything else
      {{64, 4, 4, 4}, 64, {{3}}, {{1}}, {{1}}, {{1}}, 1, 1},
      // few outputs
      {{1, 28, 28}, 20, {{5}}},
      {{1, 28, 28}, 20, {{5}}, {{0}}, {{1}}, {{1}}, 1, 9}, // several blocks of lines
      {{3, 15, 17}, 33, {{7}}, {{3}}, {{2}}},
      {{1, 6, 7}, 1, {{3}}, {{1}}},
      {{2, 5, 3}, 2, {{2}}},
      {{5, 9, 8}, 17, {{4, 3}}, {{2, 1}}, {{1, 3}}},
      {{4, 11, 9}, 7, {{3, 2}}, {{2}}, {{1}}, {{2, 3}}},
      {{1, 4, 4}, 8, {{4}}},
      {{2, 7, 6}, 70, {{3}}, {{1}}},
      {{12, 5, 4}, 25, {{1}}},
      {{1, 5, 6, 7}, 8, {{3}}, {{1}}},
      {{5, 5, 4, 6}, 31, {{2, 1, 3}}, {{1, 0, 1}}, {{2, 1, 1}}, {{1, 1, 2}}},
      {{17, 9, 8}, 20, {{3}}, {{2}}, {{1}}, {{1, 2}}},
      {{1, 90, 80}, 40, {{3}}, {{1}}, {{1}}, {{1}}, 1, 2}}; // one row at a time
}

/// Groups, among them those of one channel each, by a library or by our own kernels.
std::vector<Case> groupedCases() {
  const auto grouped = [](const Case& c, std::int64_t groups) {
    Case with = c;
    with.groups = groups;
    return with;
  };
  return {
      grouped({{32, 7, 6}, 64, {{3}}, {{1}}}, 2), grouped({{64, 9, 8}, 32, {{3}}, {{1}}, {{2}}}, 4),
      grouped({{48, 6, 7}, 24, {{3, 2}}, {{0}, true}, {{1}}, {{2}}}, 2), // neither fills vectors
      grouped({{32, 5, 5}, 32, {{3}}, {{1}}}, 8),
      grouped({{80, 6, 5}, 160, {{3}}, {{1}}}, 4), // 20 and 40 channels of a group
      grouped({{32, 5, 6}, 16, {{1}}}, 2), grouped({{32, 5, 6}, 32, {{1}}, {{0}}, {{2}}}, 4),
      grouped({{32, 4, 5, 6}, 32, {{3}}, {{1}}}, 2),
      grouped({{64, 5, 4, 5}, 32, {{2, 3, 1}}, {{1, 1, 0}}, {{2, 1, 1}}}, 4),
      grouped({{6, 6, 7}, 4, {{3}}, {{1}}}, 2),  // few channels: one product per group
      grouped({{8, 6, 7}, 16, {{3}}, {{1}}}, 8), // two outputs of each channel
      // depthwise
      grouped({{32, 14, 13}, 32, {{3}}, {{1}}}, 32), grouped({{48, 9, 8}, 48, {{3}}, {{1}}, {{2}}}, 48),
      grouped({{16, 7, 7}, 16, {{3}}, {{0}, true}, {{2}}}, 16), grouped({{20, 6, 7}, 20, {{3}}, {{1}}}, 20),
      grouped({{64, 5, 6}, 64, {{1}}}, 64), grouped({{32, 9, 8}, 32, {{3, 2}}, {{2, 0}}, {{1}}, {{2}}}, 32),
      grouped({{37, 9, 8}, 37, {{5}}, {{2}}, {{2, 3}}}, 37), grouped({{32, 12, 11}, 32, {{7}}, {{3}}}, 32),
      grouped({{3, 8, 9}, 3, {{3}}, {{1}}}, 3), grouped({{16, 4, 5, 6}, 16, {{3}}, {{1}}}, 16),
      grouped({{24, 5, 4, 5}, 24, {{2, 3, 3}}, {{1, 1, 0}}, {{2, 1, 2}}}, 24)};
}

std::vector<Case> allCases() {
  std::vector<Case> all = cases();
  for (const Case& c : groupedCases()) all.push_back(c);
  return all;
}

// Tests are compiled without optimisation, but these loops take most of their time.
#pragma GCC push_options
#pragma GCC optimize("O2")
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
  const double *of_in = x.in.data(), *of_weight = x.weight.data(), *of_grad = x.grad.data();
  double *sums = r.out.data(), *weight_gradient = r.weight_gradient.data(),
         *grad_in = r.input_gradient.data();
  eachProduct(plan, rows, [=](auto row, auto o, auto place, auto i, auto source, auto weight) {
    const std::int64_t out = (row * plan.out_channels + o) * out_places + place,
                       in = (row * plan.in_channels + i) * in_places + source;
    sums[out] += of_in[in] * of_weight[weight];
    weight_gradient[weight] += of_in[in] * of_grad[out];
    grad_in[in] += of_weight[weight] * of_grad[out];
  });
  return r;
}

#pragma GCC pop_options

Shape inOf(const ConvolutionPlan& plan) {
  return {plan.in_channels, plan.windows.in[0], plan.windows.in[1], plan.windows.in[2]};
}

Shape outOf(const ConvolutionPlan& plan) {
  return {plan.out_channels, plan.windows.out[0], plan.windows.out[1], plan.windows.out[2]};
}

/// By the class, which adds to the gradients that are there unless `accumulate` is false.
Results computed(const ConvolutionPlan& plan, std::int64_t rows, const Operands& x, Precision precision,
                 const ProductEpilogue& epilogue = {}, bool accumulate = true) {
  const Convolve convolve(plan, precision);
  const std::int64_t in_width = plan.in_channels * plan.windows.inPlaces(),
                     out_width = plan.out_channels * plan.windows.outPlaces();
  // Scratch is neither read before it is written nor written beyond its end.
  constexpr std::int64_t guard = 1 << 18;
  const std::int64_t values = plan.workValues(rows);
  const Vector guarded("partita::test::work", size(values + guard)), work(guarded.data(), size(values));
  Kokkos::deep_copy(guarded, std::numeric_limits<Real>::quiet_NaN());
  const Matrix in = matrixOf(rows, in_width, asInMemory(x.in, inOf(plan))),
               grad = matrixOf(rows, out_width, asInMemory(x.grad, outOf(plan))),
               weight = matrixOf(plan.out_channels, plan.depth(), x.weight),
               weight_gradient = matrixOf(plan.out_channels, plan.depth(), x.before),
               out = makeMatrix("partita::test::out", rows, out_width),
               grad_in = makeMatrix("partita::test::grad_in", rows, in_width);
  convolve.forward(space, work, in, weight, out, epilogue);
  convolve.backward(space, work, {in, grad, weight, weight_gradient, grad_in, accumulate});
  fence(space, "partita::test");
  const Values beyond = valuesOf(Vector(guarded.data() + values, size(guard)));
  CHECK(std::all_of(beyond.begin(), beyond.end(), [](double value) { return std::isnan(value); }));
  return {asInShape(valuesOf(out), outOf(plan)), valuesOf(weight_gradient),
          asInShape(valuesOf(grad_in), inOf(plan))};
}

} // namespace

TEST_CASE("A convolution and its gradients are those of plain loops", "[kernels]") {
  for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
    for (const Case& c : allCases()) {
      const ConvolutionPlan plan = planOf(c);
      INFO(toText(c.in) << " to " << c.channels << ", groups " << c.groups << ", precision "
                        << static_cast<int>(precision) << ", by a library "
                        << onednn::convolves(plan, precision, c.rows));
      const Operands x = operandsOf(plan, c.rows, precision);
      const Results found = computed(plan, c.rows, x, precision), expected = byHand(plan, c.rows, x);
      const double tolerance = sizeof(Real) == 4 ? (device_is_host ? 5e-6 : 2e-5) : 1e-13; // of long sums
      CHECK(relativeError(found.out, expected.out) < tolerance);
      CHECK(relativeError(found.weight_gradient, expected.weight_gradient) < tolerance);
      CHECK(relativeError(found.input_gradient, expected.input_gradient) < tolerance);
    }
  }
}

TEST_CASE("The gradient of the weights replaces what is there if it is not added to it", "[kernels]") {
  for (const Precision precision : {Precision::single, Precision::bf16}) {
    for (const Case& c : allCases()) {
      const ConvolutionPlan plan = planOf(c);
      Operands x = operandsOf(plan, c.rows, precision);
      INFO(toText(c.in) << " to " << c.channels << ", groups " << c.groups << ", precision "
                        << static_cast<int>(precision));
      const Values replaced = computed(plan, c.rows, x, precision, {}, false).weight_gradient;
      x.before.assign(x.before.size(), 0.0);
      CHECK(relativeError(replaced, computed(plan, c.rows, x, precision).weight_gradient) <
            (device_is_host ? 1e-6 : 2e-5));
    }
  }
}

TEST_CASE("The gradient of the weights over no rows is zero", "[kernels]") {
  for (const Precision precision : {Precision::single, Precision::bf16}) {
    for (const Case& c : allCases()) {
      const ConvolutionPlan plan = planOf(c);
      const Operands none = operandsOf(plan, 0, precision);
      INFO(toText(c.in) << " to " << c.channels << ", groups " << c.groups << ", precision "
                        << static_cast<int>(precision));
      CHECK(computed(plan, 0, none, precision).weight_gradient == none.before);
      CHECK(computed(plan, 0, none, precision, {}, false).weight_gradient == Values(none.before.size(), 0.0));
    }
  }
}

TEST_CASE("A convolution adds the bias of its channels, and leaves out what is negative", "[kernels]") {
  for (const Precision precision : {Precision::single, Precision::bf16}) {
    for (const Case& c : allCases()) {
      const ConvolutionPlan plan = planOf(c);
      const Operands x = operandsOf(plan, c.rows, precision);
      const Values shifts = normals(plan.out_channels, 5);
      const Vector bias = vectorOf(shifts);
      const Values sums = computed(plan, c.rows, x, precision).out;
      for (const bool relu : {false, true}) {
        Values expected = sums;
        for (std::size_t i = 0; i < expected.size(); ++i) {
          expected[i] += shifts[i / size(plan.windows.outPlaces()) % shifts.size()];
          if (relu) expected[i] = std::max(expected[i], 0.0);
        }
        INFO(toText(c.in) << " to " << c.channels << ", precision " << static_cast<int>(precision));
        CHECK(relativeError(computed(plan, c.rows, x, precision, {bias.data(), relu}).out, expected) < 1e-6);
      }
    }
  }
}

/// Only our own: kernels of a library may turn NaN into 0.
TEST_CASE("Our own kernels that clear negative values keep NaN", "[kernels]") {
  int checked = 0;
  for (const Case& c : allCases()) {
    const ConvolutionPlan plan = planOf(c);
    Values shifts = normals(plan.out_channels, 5);
    shifts.back() = std::numeric_limits<double>::quiet_NaN();
    const Vector bias = vectorOf(shifts);
    const Regions regions;
    const Values out = computed(plan, c.rows, operandsOf(plan, c.rows, Precision::single), Precision::single,
                                {bias.data(), true})
                           .out;
    if (!Regions::had("partita::winograd::forward") && !Regions::had("partita::narrow::forward") &&
        !Regions::had("partita::depthwise::forward"))
      continue;
    ++checked;
    INFO(toText(c.in) << " to " << c.channels);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t channel = i / size(plan.windows.outPlaces()) % shifts.size();
      wrong += std::isnan(out[i]) == (channel + 1 == shifts.size()) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
  // The build decides whether there are such kernels. If it has Winograd's, the first case uses them. Hosts
  // always have those for three channels with a group each.
  if (device_is_host) CHECK(checked > 0);
  if (winograd::convolves(planOf(cases().front()))) CHECK(checked > 0);
}

TEST_CASE("Windows that see only padding have no sum and no gradients", "[kernels]") {
  const Case outside{{16, 1, 9, 8}, 16, {{1, 3, 3}}, {{1, 1, 1}}, {{3, 1, 1}}};
  const ConvolutionPlan plan = planOf(outside);
  const Operands x = operandsOf(plan, outside.rows, Precision::single);
  const Results found = computed(plan, outside.rows, x, Precision::single);
  CHECK(found.out == Values(x.grad.size(), 0.0));
  CHECK(found.weight_gradient == x.before);
  CHECK(found.input_gradient == Values(x.in.size(), 0.0));
}

/// As after max-pooling, where zeros are left out.
TEST_CASE("Gradients that are mostly zeros give those of plain loops", "[kernels]") {
  for (const Case& c : allCases()) {
    const ConvolutionPlan plan = planOf(c);
    Operands x = operandsOf(plan, c.rows, Precision::single);
    for (std::size_t i = 0; i < x.grad.size(); ++i)
      if (i * 7 % 11 > 1 || i / size(plan.windows.outPlaces()) % size(plan.out_channels) == 1) x.grad[i] = 0;
    const Results found = computed(plan, c.rows, x, Precision::single), expected = byHand(plan, c.rows, x);
    INFO(toText(c.in) << " to " << c.channels << ", groups " << c.groups);
    const double tolerance = sizeof(Real) == 4 ? (device_is_host ? 5e-6 : 2e-5) : 1e-13; // of long sums
    CHECK(relativeError(found.weight_gradient, expected.weight_gradient) < tolerance);
    CHECK(relativeError(found.input_gradient, expected.input_gradient) < tolerance);
  }
}

/// The first rows decide whether zeros are left out. The last bits may differ: compilers fuse products and
/// sums in vectors but not for single values, and a BLAS may add up in another order.
TEST_CASE("The gradient of weights is the same whether zeros are left out or not", "[kernels]") {
  for (const Case& c : {Case{{20, 8, 8}, 50, {{5}}}, Case{{11, 7, 9}, 33, {{5}}},
                        Case{{35, 7, 9}, 33, {{5, 4}}, {{2}}, {{2}}, {{1, 2}}}}) {
    const ConvolutionPlan plan = planOf(c);
    constexpr std::int64_t zero_rows = 4, rows = 7;
    Operands x = operandsOf(plan, rows, Precision::single);
    const auto zeros = size(zero_rows * plan.out_channels * plan.windows.outPlaces());
    std::fill_n(x.grad.begin(), zeros, 0.0);
    const Results sparse = computed(plan, rows, x, Precision::single);
    const auto ins = static_cast<std::ptrdiff_t>(zero_rows * plan.in_channels * plan.windows.inPlaces());
    x.grad.erase(x.grad.begin(), x.grad.begin() + static_cast<std::ptrdiff_t>(zeros));
    x.in.erase(x.in.begin(), x.in.begin() + ins);
    const Results dense = computed(plan, rows - zero_rows, x, Precision::single);
    CHECK(relativeError(sparse.weight_gradient, dense.weight_gradient) < (sizeof(Real) == 4 ? 1e-6 : 1e-15));
  }
}

TEST_CASE("cuDNN takes the convolutions of training where it is there", "[kernels]") {
  const bool there = !cudnn::version().empty();
  for (const Case& c : cases()) {
    const ConvolutionPlan plan = planOf(c);
    const Operands x = operandsOf(plan, c.rows, Precision::bf16);
    const std::int64_t in_width = plan.in_channels * plan.windows.inPlaces(),
                       out_width = plan.out_channels * plan.windows.outPlaces();
    const Vector work("partita::test::work", size(plan.workValues(c.rows)));
    const Matrix in = matrixOf(c.rows, in_width, x.in),
                 weight = matrixOf(plan.out_channels, plan.depth(), x.weight),
                 out = makeMatrix("partita::test::out", c.rows, out_width);
    INFO(toText(c.in) << " to " << c.channels);
    CHECK(cudnn::convolveForward(space, {plan, Precision::bf16, c.rows},
                                 work.data() + 2 * plan.copiedWeights(), in.data(), weight.data(),
                                 out.data()) == (there && plan.windows.evenlyPadded()));
    fence(space, "partita::test");
    const cudnn::ConvolveCase halves{plan, Precision::bf16, c.rows, true};
    CHECK(2 * halves.halfWeightValues() >= plan.out_channels * plan.depth());
    CHECK(halves.halfWeightValues() % packed_alignment == 0);
  }
  const ConvolutionPlan usual = planOf({{64, 14, 14}, 64, {{3}}, {{1}}});
  const bool takes_half = there && sizeof(Real) == sizeof(float);
  CHECK(cudnn::forwardTakesHalf(usual, Precision::bf16, 32) == takes_half);
  CHECK(cudnn::backwardTakesHalf(usual, Precision::bf16, 32, true) == takes_half);
}

namespace {

/// Values of a batch, stored in 16 bits.
class Halves {
 public:
  Halves(Precision precision, std::int64_t rows, std::int64_t width)
      : _bytes("partita::test::halves", size(rows * width * bytesOf(precision))),
        _matrix(precision, _bytes.data(), rows, width) {}
  Halves(Precision precision, const Matrix& values)
      : Halves(precision, static_cast<std::int64_t>(values.extent(0)),
               static_cast<std::int64_t>(values.extent(1))) {
    copyValues(space, values, _matrix);
  }
  const TypedMatrix& matrix() const { return _matrix; }
  Values values() const {
    const Matrix reals = makeMatrix("partita::test::reals", _matrix.rows, _matrix.columns);
    copyValues(space, _matrix, reals);
    return valuesOf(reals);
  }

 private:
  Kokkos::View<char*, MemSpace> _bytes;
  TypedMatrix _matrix;
};

} // namespace

TEST_CASE("Values stored in 16 bits give what plain loops do where they are taken", "[kernels][half]") {
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    int compared = 0;
    for (const Case& c : allCases()) {
      const ConvolutionPlan plan = planOf(c);
      const Convolve convolve(plan, precision);
      const Operands x = operandsOf(plan, c.rows, precision);
      const Halves in(precision, matrixOf(c.rows, plan.in_channels * plan.windows.inPlaces(),
                                          asInMemory(x.in, inOf(plan)))),
          grad(precision, matrixOf(c.rows, plan.out_channels * plan.windows.outPlaces(),
                                   asInMemory(x.grad, outOf(plan)))),
          out(precision, c.rows, grad.matrix().columns), grad_in(precision, c.rows, in.matrix().columns);
      INFO(toText(c.in) << " to " << c.channels << ", precision " << static_cast<int>(precision));
      const bool taken = convolve.forwardTakesHalf(in.matrix(), out.matrix());
      CHECK((taken || !onednn::convolves(plan, precision, c.rows, nullptr, true)));
      if (!taken || !convolve.backwardTakesHalf(in.matrix(), grad.matrix(), grad_in.matrix())) continue;
      const Vector work("partita::test::work", size(plan.workValues(c.rows))),
          bias = vectorOf(normals(plan.out_channels, 5));
      const Values shifts = valuesOf(bias);
      const Matrix weight = matrixOf(plan.out_channels, plan.depth(), x.weight),
                   weight_gradient = matrixOf(plan.out_channels, plan.depth(), x.before);
      convolve.forward(space, work, in.matrix(), weight, out.matrix(), {bias.data(), true});
      convolve.backward(space, work,
                        {in.matrix(), grad.matrix(), weight, weight_gradient, grad_in.matrix(), true});
      fence(space, "partita::test");
      Results expected = byHand(plan, c.rows, x);
      for (std::size_t i = 0; i < expected.out.size(); ++i) {
        const std::size_t channel = i / size(plan.windows.outPlaces()) % size(plan.out_channels);
        expected.out[i] = std::max(expected.out[i] + shifts[channel], 0.0);
      }
      const double tolerance = precision == Precision::bf16 ? 8e-3 : 1e-3;
      CHECK(relativeError(asInShape(out.values(), outOf(plan)), expected.out) < tolerance);
      CHECK(relativeError(valuesOf(weight_gradient), expected.weight_gradient) < tolerance);
      CHECK(relativeError(asInShape(grad_in.values(), inOf(plan)), expected.input_gradient) < tolerance);
      ++compared;
    }
    if (device_is_host && onednn::multiplies(precision)) CHECK(compared >= 10);
  }
}

namespace {

void checkOrderOfColumns(Precision precision, std::int64_t channels, std::int64_t taps) {
  constexpr std::int64_t outputs = 3;
  const Matrix weight = matrixOf(outputs, channels * taps, normals(outputs * channels * taps, 1)),
               again = matrixOf(outputs, channels * taps, Values(outputs * channels * taps, 1.0));
  roundTo(space, precision, weight);
  const Halves packed(precision, outputs, channels * taps);
  packWeights(space, taps, weight, packed.matrix());
  const Values before = valuesOf(weight), after = packed.values();
  Values ordered(before.size()), added = before;
  for (std::size_t o = 0; o < outputs; ++o)
    for (std::size_t i = 0; i < size(channels); ++i)
      for (std::size_t t = 0; t < size(taps); ++t)
        ordered[(o * size(taps) + t) * size(channels) + i] =
            before[(o * size(channels) + i) * size(taps) + t];
  CHECK(after == ordered);
  unpackWeights(space, taps, packed.matrix(), again, false);
  CHECK(valuesOf(again) == before);
  unpackWeights(space, taps, packed.matrix(), again, true);
  for (double& value : added) value *= 2;
  CHECK(valuesOf(again) == added);
}

} // namespace

TEST_CASE("Weights go into the order of the columns and back, in any precision", "[kernels][half]") {
  for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16})
    for (const std::int64_t channels : {5, 40}) // a device has an item per channel if there are many
      for (const std::int64_t taps : {1, 4}) checkOrderOfColumns(precision, channels, taps);
}

/// As a part of a stage computes it while places of other parts travel.
TEST_CASE("A convolution block by block, and its gradients one by one, are the same", "[kernels]") {
  for (const Precision precision : {Precision::single, Precision::bf16}) {
    for (const Case& c : allCases()) {
      const ConvolutionPlan plan = planOf(c);
      if (plan.pointwise()) continue; // sees no places of others
      const Operands x = operandsOf(plan, c.rows, precision);
      const Convolve convolve(plan, precision);
      const std::int64_t in_width = plan.in_channels * plan.windows.inPlaces(),
                         out_width = plan.out_channels * plan.windows.outPlaces();
      const Vector work("partita::test::work",
                        size(plan.workValues(c.rows) + plan.rowsAtOnce(c.rows) * out_width));
      const Matrix in = matrixOf(c.rows, in_width, asInMemory(x.in, inOf(plan))),
                   grad = matrixOf(c.rows, out_width, asInMemory(x.grad, outOf(plan))),
                   weight = matrixOf(plan.out_channels, plan.depth(), x.weight),
                   weight_gradient = matrixOf(plan.out_channels, plan.depth(), x.before),
                   out = makeMatrix("partita::test::out", c.rows, out_width),
                   grad_in = makeMatrix("partita::test::grad_in", c.rows, in_width);
      Kokkos::deep_copy(out, Real(7)); // every place is written
      Block interior;
      for (std::size_t a = 0; a < 3; ++a) {
        const std::int64_t outs = plan.windows.out[a], border = outs > 2 ? 1 : 0;
        interior.axes[a] = {border, outs - border};
      }
      int calls = 0;
      std::vector<Block> blocks = aroundInterior(interior, plan.windows.out);
      blocks.push_back(interior);
      for (const Block& block : blocks)
        convolve.forwardBlock(space, work, in, weight, out, block, [&] { ++calls; });
      convolve.backward(space, work, {in, grad, weight, {}, grad_in, true});
      convolve.backward(space, work, {in, grad, weight, weight_gradient, {}, true, [&] { ++calls; }});
      fence(space, "partita::test");
      INFO(toText(c.in) << " to " << c.channels << ", groups " << c.groups << ", precision "
                        << static_cast<int>(precision) << ", by a library "
                        << onednn::convolves(plan, precision, c.rows));
      const Results whole = computed(plan, c.rows, x, precision);
      CHECK(relativeError(asInShape(valuesOf(out), outOf(plan)), whole.out) <
            (sizeof(Real) == 4 ? 2e-6 : 1e-13));
      CHECK(valuesOf(weight_gradient) == whole.weight_gradient);
      CHECK(asInShape(valuesOf(grad_in), inOf(plan)) == whole.input_gradient);
      CHECK(calls > static_cast<int>(blocks.size()));
    }
  }
}

TEST_CASE("A convolution has the same bits each time", "[kernels]") {
  for (const Precision precision : {Precision::single, Precision::bf16}) {
    for (const std::int64_t groups : {1, 2, 32}) {
      for (const std::int64_t kernel : {3, 5}) {
        const ConvolutionPlan plan = planOf({{32, 14, 14}, 32, {{kernel}}, {{1}}, {{1}}, {{1}}, groups});
        const Operands x = operandsOf(plan, 9, precision);
        const Results first = computed(plan, 9, x, precision), again = computed(plan, 9, x, precision);
        INFO("groups " << groups << ", kernel " << kernel);
        CHECK(first.out == again.out);
        CHECK(first.weight_gradient == again.weight_gradient);
        CHECK(first.input_gradient == again.input_gradient);
      }
    }
  }
}

TEST_CASE("Groups of channels are not computed as a product each", "[kernels]") {
  if (!device_is_host) return;
  const auto forward = [](const Case& c) {
    const ConvolutionPlan plan = planOf(c);
    const Regions regions;
    computed(plan, c.rows, operandsOf(plan, c.rows, Precision::single), Precision::single);
    CHECK_FALSE((plan.depthwise() && Regions::had("partita::columns::gather")));
    return std::make_pair(Regions::had("partita::onednn::convolve"),
                          Regions::had("partita::depthwise::forward"));
  };
  const bool library = onednn::convolvesFloats();
  using Used = std::pair<bool, bool>;
  CHECK(forward({{32, 7, 6}, 64, {{3}}, {{1}}, {{1}}, {{1}}, 2}) == Used{library, false});
  CHECK(forward({{64, 7, 6}, 64, {{3}}, {{1}}, {{1}}, {{1}}, 64}) == Used{library, !library});
  const Used wide = forward({{64, 7, 6}, 64, {{7}}, {{3}}, {{1}}, {{1}}, 64}); // by what the library has
  CHECK(wide.first != wide.second);
  CHECK(forward({{3, 7, 6}, 3, {{3}}, {{1}}, {{1}}, {{1}}, 3}) == Used{false, true});
  CHECK(forward({{4, 7, 6}, 4, {{3}}, {{1}}, {{1}}, {{1}}, 2}) == Used{false, false});
}

TEST_CASE("Few rows are packed at once, and about as many each time", "[kernels]") {
  const ConvolutionPlan plan = planOf({{64, 56, 56}, 64, {{3}}, {{1}}});
  if (plans_for_device) { // nothing is packed there
    CHECK_FALSE(plan.packable());
    return;
  }
  CHECK(plan.packable());
  CHECK(plan.packedRows(1) == 1);
  CHECK(plan.packedRows(1000) == 2);
  CHECK(plan.workValues(1000) == plan.workValues(100));
  const ConvolutionPlan small = planOf({{32, 14, 14}, 32, {{3}}, {{1}}});
  CHECK(small.packedRows(128) == 64); // not 83 and 45
  CHECK(small.packedRows(0) == 0);
  CHECK(planOf({{64, 5, 5}, 32, {{1}}}).packable());
  CHECK_FALSE(planOf({{3, 8, 8}, 16, {{3}}}).packable());
  const auto inGroups = [](std::int64_t channels, std::int64_t groups) {
    return planOf({{channels, 8, 8}, channels, {{3}}, {{1}}, {{1}}, {{1}}, groups});
  };
  CHECK(inGroups(32, 2).packable());
  CHECK(inGroups(32, 32).packable());
  CHECK_FALSE(inGroups(32, 16).packable());
  CHECK_FALSE(inGroups(8, 8).packable());
  CHECK(inGroups(512, 512).packedWeights() == 512 * 9);
  CHECK(inGroups(128, 32).packedWeights() == 32 * 16 * 16 * 9);
  CHECK_FALSE(onednn::convolves(small, Precision::single, 0));
}

} // namespace partita::test::kernels_convolve
