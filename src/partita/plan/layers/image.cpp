#include "partita/config/user_error.hpp"
#include "partita/plan/layers/table.hpp"
#include "partita/plan/window_plan.hpp"

#include <algorithm>

namespace partita {

namespace {

/// Like the attributes of ONNX's operators, for the axes that the input has.
std::vector<LayerStep::Setting> windowSettings(const WindowPlan& w, const Shape& in) {
  std::vector<std::int64_t> kernel, stride, dilation, before, after;
  for (std::size_t a = isVolume(in) ? 0 : 1; a < 3; ++a) {
    kernel.push_back(w.kernel[a]);
    stride.push_back(w.stride[a]);
    dilation.push_back(w.dilation[a]);
    before.push_back(w.before[a]);
    const std::int64_t reach = w.dilation[a] * (w.kernel[a] - 1) + 1;
    after.push_back(std::max<std::int64_t>(0, (w.out[a] - 1) * w.stride[a] + reach - w.in[a] - w.before[a]));
  }
  before.insert(before.end(), after.begin(), after.end());
  return {{"kernel_shape", kernel}, {"strides", stride}, {"dilations", dilation}, {"pads", before}};
}

/// y = act(W * x + b), W {channels, channels in / groups, extents of the window}.
class ConvolutionRules : public LayerRules {
 public:
  explicit ConvolutionRules(bool volume) : _volume(volume) {}

  Shape output(const LayerPlan& plan) const override {
    if (_volume && !isVolume(plan.in))
      throw UserError(plan.entry + ": " + plan.spec.type +
                      " needs channels x depth x rows x columns, but its input is " + toText(plan.in));
    if (!_volume && !isImage(plan.in))
      throw UserError(plan.entry + ": " + plan.spec.type +
                      " needs channels x rows x columns, but its input is " + toText(plan.in));
    const ConvolutionPlan convolution(plan);
    return shapeOf(convolution.out_channels, convolution.windows, plan.in);
  }

  std::vector<ParameterShape> parameters(const LayerPlan& plan) const override {
    const ConvolutionPlan convolution(plan);
    std::vector<std::int64_t> extents{convolution.out_channels, convolution.in_channels / convolution.groups};
    const std::string axes =
        _volume ? "outputs, inputs, depth, rows, columns" : "outputs, inputs, rows, columns";
    for (std::size_t a = _volume ? 0 : 1; a < 3; ++a) extents.push_back(convolution.windows.kernel[a]);
    std::vector<ParameterShape> shapes{{"weight", extents, axes}};
    if (plan.spec.convolution.bias) shapes.push_back({"bias", {convolution.out_channels}, "outputs"});
    return shapes;
  }

  LayerWork work() const override { return LayerWork::convolution; }
  std::optional<WindowPlan> windows(const LayerPlan& plan) const override { return convolutionWindows(plan); }

  double forwardFlops(const LayerPlan& plan) const override {
    return 2.0 * static_cast<double>(ConvolutionPlan(plan).depth()) * static_cast<double>(plan.outputs());
  }

  /// Columns are gathered in both passes, and their gradients are added to that of the input. Outputs and
  /// their gradients count as read and written once more than by the products.
  Moves moves(const LayerPlan& plan) const override {
    const ConvolutionPlan convolution(plan);
    const auto in = static_cast<double>(plan.inputs()), out = static_cast<double>(plan.outputs());
    const bool active = plan.spec.activation != Activation::identity || plan.spec.convolution.bias;
    const double columns =
        convolution.pointwise()
            ? 0.0
            : static_cast<double>(convolution.groups * convolution.depth() * convolution.windows.outPlaces());
    const double copy = !active && convolution.pointwise() ? 0.0 : 2 * out;
    return {2 * columns + copy, 2 * columns + copy + (active ? 3 * out : 0.0),
            columns > 0 ? 3 * columns + in : 0.0};
  }

  std::int64_t savedValues(const LayerPlan& plan) const override {
    return needsArgument(plan.spec.activation) ? plan.outputRoom() : 0;
  }

  /// Scratch of the convolution itself, and the sums of each channel of a row; or products of a block of the
  /// outputs, which do not lie in their places. After these, activations of 16 bits as `Real`.
  std::int64_t workValues(const LayerPlan& plan, std::int64_t rows) const override {
    const ConvolutionPlan convolution(plan);
    const bool blocks = plan.part && plan.part->interior.places() > 0;
    return convolution.workValues(rows) +
           std::max(convolution.out_channels * rows,
                    blocks ? plan.outputs() * convolution.rowsAtOnce(rows) : 0) +
           (plan.activations != Precision::single ? convolution.valuesInReal(rows) : 0);
  }

  bool scalesOutput(const LayerPlan&) const override { return true; }

  LayerStep step(const LayerPlan& plan) const override {
    LayerStep step{"convolution", plan.in, plan.out, windowSettings(convolutionWindows(plan), plan.in)};
    step.settings.push_back({"group", {plan.spec.convolution.groups}});
    return step;
  }

 private:
  bool _volume;
};

class PoolRules : public LayerRules {
 public:
  explicit PoolRules(bool largest) : _largest(largest) {}

  Shape output(const LayerPlan& plan) const override {
    const WindowPlan windows = poolingWindows(plan);
    constexpr std::int64_t exact_in_float = 1 << 24;
    if (_largest && windows.inPlaces() > exact_in_float)
      throw UserError(plan.entry + ": max-pool takes at most " + std::to_string(exact_in_float) +
                      " positions, but its input is " + toText(plan.in));
    return shapeOf(plan.in.front(), windows, plan.in);
  }

  LayerWork work() const override { return LayerWork::pooling; }
  std::optional<WindowPlan> windows(const LayerPlan& plan) const override { return poolingWindows(plan); }

  /// The position of the largest value.
  std::int64_t savedValues(const LayerPlan& plan) const override { return _largest ? plan.outputs() : 0; }

  OutputValues outputValues() const override {
    return _largest ? OutputValues::chosen : OutputValues::computed;
  }

  LayerStep step(const LayerPlan& plan) const override {
    return {plan.spec.type, plan.in, plan.out, windowSettings(poolingWindows(plan), plan.in)};
  }

 private:
  bool _largest;
};

class GlobalPoolRules : public LayerRules {
 public:
  Shape output(const LayerPlan& plan) const override {
    if (!isImage(plan.in) && !isVolume(plan.in))
      throw UserError(plan.entry + ": " + plan.spec.type + " needs an image or a volume, but its input is " +
                      toText(plan.in));
    return {plan.in.front()};
  }

  LayerWork work() const override { return LayerWork::pooling; }
  std::optional<WindowPlan> windows(const LayerPlan& plan) const override { return wholeWindow(plan); }

  /// Other programs keep the spatial axes with extent one.
  LayerStep step(const LayerPlan& plan) const override {
    Shape out(plan.in.size(), 1);
    out.front() = plan.out.front();
    return {plan.spec.type, plan.in, out};
  }
};

class FlattenRules : public LayerRules {
 public:
  Shape output(const LayerPlan& plan) const override { return {plan.inputs()}; }
  OutputValues outputValues() const override { return OutputValues::rearranged; }
  LayerStep step(const LayerPlan& plan) const override { return {"", plan.out, plan.out}; }
};

} // namespace

const LayerRules& conv2dRules() {
  static const ConvolutionRules rules(false);
  return rules;
}

const LayerRules& conv3dRules() {
  static const ConvolutionRules rules(true);
  return rules;
}

const LayerRules& maxPoolRules() {
  static const PoolRules rules(true);
  return rules;
}

const LayerRules& averagePoolRules() {
  static const PoolRules rules(false);
  return rules;
}

const LayerRules& globalAveragePoolRules() {
  static const GlobalPoolRules rules;
  return rules;
}

const LayerRules& flattenRules() {
  static const FlattenRules rules;
  return rules;
}

LayerSpec pointwiseConvolution(std::int64_t channels, bool volume) {
  LayerSpec spec;
  spec.type = volume ? "conv3d" : "conv2d";
  spec.convolution.channels = channels;
  spec.convolution.kernel = {{1}};
  return spec;
}

LayerSpec averagePool(std::int64_t window) {
  LayerSpec spec;
  spec.type = "average-pool";
  spec.pool.kernel = spec.pool.stride = {{window}};
  return spec;
}

} // namespace partita
