#include "partita/config/user_error.hpp"
#include "partita/plan/layer_rules.hpp"
#include "partita/plan/window_plan.hpp"

namespace partita {

namespace {

/// y = act(W * x + b), W {channels, channels in / groups, extents of the window}.
class ConvolutionRules : public LayerRules {
 public:
  Shape output(const LayerPlan& plan) const override {
    const ConvolutionPlan convolution(plan);
    return shapeOf(convolution.out_channels, convolution.windows, plan.in);
  }

  std::vector<ParameterShape> parameters(const LayerPlan& plan) const override {
    const ConvolutionPlan convolution(plan);
    std::vector<std::int64_t> extents{convolution.out_channels, convolution.in_channels / convolution.groups};
    const std::string axes =
        isVolume(plan.in) ? "outputs, inputs, depth, rows, columns" : "outputs, inputs, rows, columns";
    for (std::size_t a = isVolume(plan.in) ? 0 : 1; a < 3; ++a)
      extents.push_back(convolution.windows.kernel[a]);
    std::vector<ParameterShape> shapes{{"weight", extents, axes}};
    if (plan.spec.convolution.bias) shapes.push_back({"bias", {convolution.out_channels}, "outputs"});
    return shapes;
  }

  double forwardFlops(const LayerPlan& plan) const override {
    return 2.0 * static_cast<double>(ConvolutionPlan(plan).depth()) * static_cast<double>(plan.outputs());
  }

  std::int64_t savedValues(const LayerPlan& plan) const override {
    return needsArgument(plan.spec.activation) ? plan.outputs() : 0;
  }

  /// Columns, products of several rows, and the sums of each channel of a row.
  std::int64_t workValues(const LayerPlan& plan, std::int64_t rows) const override {
    const ConvolutionPlan convolution(plan);
    return convolution.columnValues(rows) + convolution.productValues(rows) + convolution.out_channels * rows;
  }
};

class PoolRules : public LayerRules {
 public:
  explicit PoolRules(bool largest) : _largest(largest) {}

  Shape output(const LayerPlan& plan) const override {
    const WindowPlan windows = poolingWindows(plan);
    constexpr std::int64_t exact_in_float = 1 << 24;
    if (_largest && windows.inPlaces() > exact_in_float)
      throw UserError(plan.entry + ": max-pool takes " + std::to_string(exact_in_float) +
                      " places at most, its input is " + toText(plan.in));
    return shapeOf(plan.in.front(), windows, plan.in);
  }

  /// Where the largest value was.
  std::int64_t savedValues(const LayerPlan& plan) const override { return _largest ? plan.outputs() : 0; }

 private:
  bool _largest;
};

class GlobalPoolRules : public LayerRules {
 public:
  Shape output(const LayerPlan& plan) const override {
    if (!isImage(plan.in) && !isVolume(plan.in))
      throw UserError(plan.entry + ": global-average-pool needs an image or a volume, its input is " +
                      toText(plan.in));
    return {plan.in.front()};
  }
};

class FlattenRules : public LayerRules {
 public:
  Shape output(const LayerPlan& plan) const override { return {plan.inputs()}; }
};

/// y = act(scale (x - mean) / sqrt(variance + epsilon) + shift), channel by channel.
class BatchNormRules : public LayerRules {
 public:
  Shape output(const LayerPlan& plan) const override {
    if (isSequence(plan.in))
      throw UserError(plan.entry + ": batch-norm takes values, images and volumes, its input " +
                      toText(plan.in) + " is a sequence");
    return plan.in;
  }

  std::vector<ParameterShape> parameters(const LayerPlan& plan) const override {
    return {{"scale", {plan.in.front()}, "channels"}, {"shift", {plan.in.front()}, "channels"}};
  }
  std::vector<ParameterShape> statistics(const LayerPlan& plan) const override {
    return {{"mean", {plan.in.front()}, "channels"}, {"variance", {plan.in.front()}, "channels"}};
  }

  /// Mean and deviation of the batch, which any batch of one row or more has room for.
  std::int64_t savedValues(const LayerPlan& plan) const override { return 2 * plan.in.front(); }

  /// Two sums of each channel of a row, and of the batch; and the number of its values.
  std::int64_t workValues(const LayerPlan& plan, std::int64_t rows) const override {
    return 2 * plan.in.front() * (rows + 1) + 1;
  }
};

} // namespace

const LayerRules* imageRules(const std::string& type) {
  static const ConvolutionRules convolution;
  static const PoolRules largest(true), average(false);
  static const GlobalPoolRules global;
  static const FlattenRules flatten;
  static const BatchNormRules batch_norm;
  if (type == "conv2d" || type == "conv3d") return &convolution;
  if (type == "max-pool") return &largest;
  if (type == "average-pool") return &average;
  if (type == "global-average-pool") return &global;
  if (type == "flatten") return &flatten;
  return type == "batch-norm" ? &batch_norm : nullptr;
}

} // namespace partita
