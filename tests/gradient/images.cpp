#include "partita/plan/network_plan.hpp"
#include "partita/plan/window_plan.hpp"

#include "layer_probe.hpp"

namespace partita::test::images {

namespace {

LayerSpec layer(const std::string& type, const Activation activation = Activation::identity) {
  LayerSpec spec;
  spec.type = type;
  spec.activation = activation;
  return spec;
}

LayerSpec conv(std::int64_t channels, const AxisSizes& kernel, const AxisSizes& padding = {{0}},
               const AxisSizes& stride = {{1}}, const AxisSizes& dilation = {{1}}, std::int64_t groups = 1) {
  LayerSpec spec = layer(kernel.values.size() == 3 ? "conv3d" : "conv2d", Activation::tanh);
  spec.convolution.channels = channels;
  spec.convolution.kernel = kernel;
  spec.convolution.padding = padding;
  spec.convolution.stride = stride;
  spec.convolution.dilation = dilation;
  spec.convolution.groups = groups;
  return spec;
}

LayerPlan planOf(const LayerSpec& spec, const Shape& shape) {
  NetworkSection network;
  LayerSpec last;
  last.dense.units = 2;
  network.layers = {spec, last};
  return planNetwork(network, shape, 2).front();
}

Values scaled(Values values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

/// `scale` multiplies the parameters: values divided by a deviation have less curvature if it is large.
void check(const LayerSpec& spec, const Shape& shape, double scale = 1.0) {
  const LayerPlan plan = planOf(spec, shape);
  INFO(spec.type << " " << toText(plan.in) << " -> " << toText(plan.out));
  checkLayer(plan, scaled(normals(plan.parameters(), 7), scale), normals(rows * plan.inputs(), 8));
}

/// Many parameters: the derivative in one direction of all parameters and inputs.
void checkAlong(const LayerSpec& spec, const Shape& shape, bool by_winograd = false) {
  const LayerPlan plan = planOf(spec, shape);
  INFO(spec.type << " " << toText(plan.in) << " -> " << toText(plan.out));
  CHECK(ConvolutionPlan(plan).winograd() == (by_winograd && !plans_for_device));
  const auto made = makeLayer(plan);
  const LayerProbe probe(*made, plan);
  // Sums of many products are large.
  const Values parameters = scaled(normals(plan.parameters(), 7), 0.1), in = normals(rows * plan.inputs(), 8),
               of_parameters = scaled(normals(plan.parameters(), 9), 0.1),
               of_in = scaled(normals(rows * plan.inputs(), 10), 0.1);
  probe.value(parameters, in);
  const Values grad = probe.backward();
  const double expected = dot(grad, of_in) + dot(probe.gradients(), of_parameters);
  const auto moved = [](Values values, const Values& direction, double t) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += t * direction[i];
    return values;
  };
  const auto along = [&](const Values& t) {
    return probe.value(moved(parameters, of_parameters, t[0]), moved(in, of_in, t[0]));
  };
  CHECK(numericalGradient(along, {0.0})[0] == Approx(expected).epsilon(1e-8));
}

} // namespace

TEST_CASE("Conv2d: kernels, paddings, strides, dilations and groups", "[gradient]") {
  check(conv(3, {{3}}), {2, 5, 6});
  check(conv(2, {{1}}), {3, 4, 3});                                  // no columns
  check(conv(4, {{1}}, {{0}}, {{1}}, {{1}}, 2), {2, 3, 3});          // nor here
  check(conv(2, {{1}}, {{0}}, {{2}}), {2, 5, 4});                    // a window of one place, with stride
  check(conv(3, {{3, 2}}, {{1, 0}}, {{2, 1}}), {2, 7, 5});           // places left over at the end
  check(conv(2, {{3}}, {{2}}, {{1}}, {{2}}), {1, 6, 5});             // dilated
  check(conv(2, {{3}}, {{5}}, {{1}}, {{5}}), {2, 4, 3});             // taps that are never inside the input
  check(conv(4, {{3}}, {{1}}, {{2}}, {{1}}, 2), {4, 5, 7});          // groups
  check(conv(4, {{3}}, {{1}}, {{1}}, {{1}}, 4), {4, 4, 4});          // depthwise
  check(conv(2, {{5}}, {{4}}, {{3}}), {1, 3, 2});                    // a window wider than the image
  check(conv(2, {{4}}, {{0}, true}, {{1}}), {2, 5, 4});              // same, of an even kernel
  check(conv(2, {{3, 2}}, {{0}, true}, {{2}}, {{1, 2}}), {2, 6, 5}); // same, with strides
}

TEST_CASE("Conv2d: channels for which Winograd's algorithm is used", "[gradient]") {
  checkAlong(conv(17, {{3}}, {{1}}), {16, 5, 4}, true);
  checkAlong(conv(16, {{3}}, {{2}}), {16, 3, 7}, true);
  checkAlong(conv(20, {{3, 3, 3}}, {{1}}), {16, 4, 3, 5}, true);
}

TEST_CASE("Conv2d and Conv3d: groups of many channels", "[gradient]") {
  checkAlong(conv(32, {{3}}, {{1}}, {{2}}, {{1}}, 2), {16, 5, 4});
  checkAlong(conv(32, {{3}}, {{1}}, {{1}}, {{1}}, 4), {32, 5, 4});
  checkAlong(conv(20, {{3}}, {{1}}, {{2, 1}}, {{1}}, 20), {20, 5, 4}); // depthwise, from here on
  checkAlong(conv(17, {{5, 4}}, {{2}}, {{1}}, {{1, 2}}, 17), {17, 6, 7});
  checkAlong(conv(16, {{3, 3, 3}}, {{1}}, {{1, 2, 1}}, {{1}}, 16), {16, 4, 3, 5});
}

TEST_CASE("Conv3d", "[gradient]") {
  check(conv(2, {{2, 3, 2}}), {2, 3, 4, 3});
  check(conv(2, {{3, 3, 3}}, {{1}}, {{2, 1, 2}}, {{1}}, 2), {2, 4, 3, 5});
  check(conv(2, {{3, 3, 3}}, {{0}, true}, {{1}}), {2, 3, 4, 3});
  check(conv(1, {{2, 1, 2}}, {{0}, true}, {{1}}, {{2, 1, 1}}), {1, 3, 2, 3});
}

TEST_CASE("Conv2d: activations that want their argument, and no bias", "[gradient]") {
  for (const Activation activation : {Activation::gelu, Activation::silu, Activation::identity}) {
    for (const bool bias : {true, false}) {
      LayerSpec spec = conv(3, {{3}}, {{1}});
      spec.activation = activation;
      spec.convolution.bias = bias;
      check(spec, {2, 4, 5});
    }
  }
}

TEST_CASE("Conv2d: rows of the batch in several parts", "[gradient]") {
  // The columns of one row have 9 x 8 x 4096 values, so that only one row fits at a time.
  const LayerPlan plan = planOf(conv(1, {{3}}, {{1}}, {{2}}), {8, 128, 128});
  const auto whole = makeLayer(plan);
  const LayerProbe probe(*whole, plan);
  const Values parameters = normals(plan.parameters(), 7), in = normals(rows * plan.inputs(), 8);
  probe.value(parameters, in);
  const Values grad = probe.backward(), gradients = probe.gradients();
  const Values numerical = numericalGradient([&](const Values& p) { return probe.value(p, in); }, parameters);
  CHECK(relativeError(gradients, numerical) < gradient_tolerance);
  // J is the sum over the rows of the batch, so <dJ/dx, v> for one direction v is enough here.
  const Values direction = scaled(normals(rows * plan.inputs(), 9), 0.1);
  const auto along = [&](const Values& t) {
    Values moved = in;
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += t[0] * direction[i];
    return probe.value(parameters, moved);
  };
  CHECK(numericalGradient(along, {0.0})[0] == Approx(dot(grad, direction)).epsilon(1e-8));
}

TEST_CASE("Conv2d: accumulate adds to the gradients", "[gradient]") {
  for (const std::int64_t kernel : {1, 3}) {
    const LayerPlan plan = planOf(conv(3, {{kernel}}), {2, 4, 5});
    const auto made = makeLayer(plan);
    const LayerProbe probe(*made, plan);
    const Values parameters = normals(plan.parameters(), 7), in = normals(rows * plan.inputs(), 1);
    probe.value(parameters, in);
    probe.backward();
    const Values twice = scaled(probe.gradients(), 2.0);
    probe.value(parameters, in);
    probe.backward(true);
    CHECK(relativeError(probe.gradients(), twice) < 1e-14);
  }
}

TEST_CASE("Pooling of images and volumes", "[gradient]") {
  for (const std::string type : {"max-pool", "average-pool"}) {
    LayerSpec spec = layer(type);
    check(spec, {2, 4, 6});
    check(spec, {2, 5, 7}); // the last places are dropped
    check(spec, {8, 2, 4}); // channels that devices read together
    spec.pool.kernel = {{3, 2}};
    spec.pool.stride = {{2, 1}};
    spec.pool.padding = {{1}};
    check(spec, {2, 5, 6}); // windows overlap
    check(spec, {8, 3, 2});
    spec.pool.padding = {{0}, true};
    check(spec, {1, 6, 5});
    spec = layer(type);
    spec.pool.kernel = {{2, 3, 2}};
    spec.pool.stride = {{1, 2, 3}};
    check(spec, {2, 3, 5, 6});
  }
}

TEST_CASE("Global-average-pool and flatten", "[gradient]") {
  check(layer("global-average-pool"), {3, 4, 5});
  check(layer("global-average-pool"), {8, 2, 3});
  check(layer("global-average-pool"), {2, 3, 4, 5});
  check(layer("flatten"), {3, 4, 5});
}

/// Their weights count the values of an image in the order of its shape.
TEST_CASE("Layers of vectors take images as they take the vector of their values", "[gradient]") {
  LayerSpec dense;
  dense.dense.units = 4;
  dense.activation = Activation::tanh;
  for (const Shape& shape : {Shape{3, 2, 4}, Shape{2, 2, 3, 5}}) {
    check(dense, shape);
    const LayerPlan of_image = planOf(dense, shape), of_vector = planOf(dense, {of_image.inputs()});
    const auto first = makeLayer(of_image), second = makeLayer(of_vector);
    const LayerProbe image(*first, of_image), vector(*second, of_vector);
    const Values parameters = normals(of_image.parameters(), 7), in = normals(rows * of_image.inputs(), 8);
    CHECK(image.value(parameters, in) == vector.value(parameters, in));
    CHECK(image.backward() == vector.backward());
    CHECK(image.gradients() == vector.gradients());
    for (const char* norm : {"layer-norm", "rms-norm"}) check(layer(norm), shape);
  }
}

TEST_CASE("Batch-norm of vectors, images and volumes", "[gradient]") {
  for (const Activation activation : {Activation::identity, Activation::tanh, Activation::gelu}) {
    check(layer("batch-norm", activation), {5});
    check(layer("batch-norm", activation), {3, 4, 5});
    check(layer("batch-norm", activation), {8, 3, 2});
    check(layer("batch-norm", activation), {2, 3, 2, 3});
  }
}

TEST_CASE("Batch-norm: an epsilon that counts", "[gradient]") {
  LayerSpec spec = layer("batch-norm", Activation::gelu);
  spec.batch_norm.epsilon = 0.5;
  check(spec, {3, 4, 5});
}

/// Then mean and deviation do not depend on the input.
TEST_CASE("Batch-norm outside training", "[gradient]") {
  for (const Activation activation : {Activation::identity, Activation::gelu}) {
    for (const Shape& shape : {Shape{5}, Shape{3, 4, 5}}) {
      const LayerPlan plan = planOf(layer("batch-norm", activation), shape);
      const auto made = makeLayer(plan);
      LayerProbe probe(*made, plan);
      const Values parameters = normals(plan.parameters(), 7), in = normals(rows * plan.inputs(), 8);
      probe.value(parameters, scaled(in, 3.0)); // moves the running statistics
      probe.setTraining(false);
      INFO(toText(shape));
      checkAgainstDifferences(probe, parameters, in);
    }
  }
}

TEST_CASE("group-norm of vectors, images and volumes", "[gradient]") {
  LayerSpec spec = layer("group-norm");
  for (const std::int64_t groups : {1, 2, 6}) {
    spec.group_norm.groups = groups;
    if (groups < 6) check(spec, {6}); // groups of one value make the output constant
    if (groups < 6) check(spec, {8, 3, 2});
    check(spec, {6, 3, 4});
    check(spec, {6, 2, 3, 2});
  }
  spec.group_norm = {3, 0.1};
  check(spec, {6, 4, 5});
}

TEST_CASE("Norms of channels: accumulate adds to the gradients", "[gradient]") {
  for (const char* type : {"batch-norm", "group-norm"}) {
    INFO(type);
    LayerSpec spec = layer(type);
    spec.group_norm.groups = 2;
    const LayerPlan plan = planOf(spec, {4, 3, 5});
    const auto made = makeLayer(plan);
    const LayerProbe probe(*made, plan);
    probe.value(normals(plan.parameters(), 7), normals(rows * plan.inputs(), 1));
    probe.backward();
    const Values twice = scaled(probe.gradients(), 2.0);
    probe.backward(true);
    CHECK(relativeError(probe.gradients(), twice) < 1e-14);
  }
}

TEST_CASE("A residual block as deep networks have it", "[gradient]") {
  LayerSpec inner = conv(4, {{3}}, {{1}}, {{2}}), second = conv(4, {{3}}, {{1}}),
            beside = conv(4, {{1}}, {{0}}, {{2}});
  for (LayerSpec* spec : {&inner, &second, &beside}) {
    spec->convolution.bias = false;
    spec->activation = Activation::identity;
  }
  for (const bool recompute : {false, true}) {
    LayerSpec spec = layer("residual", Activation::gelu);
    spec.layers = {inner, layer("batch-norm", Activation::tanh), second, layer("batch-norm")};
    spec.shortcut = {beside, layer("batch-norm")};
    spec.recompute = recompute;
    check(spec, {3, 5, 6}, 2.0);
  }
}

} // namespace partita::test::images
