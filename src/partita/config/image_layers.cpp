#include "partita/config/image_layers.hpp"

#include "partita/config/parameters.hpp"

namespace partita {
namespace {

constexpr double most = 1 << 24;

void addPadding(Section& section, LayerSpec& spec, const std::string& text) {
  section.add("padding", Axes{&spec.padding, true}, within(0, most), "places", text);
}

Section describeConvolution(const std::string& name, const std::string& text, LayerSpec& spec) {
  Section section{name, text};
  section.add("channels", &spec.channels, within(1, most), "channels", "of the output; required");
  section.add("kernel", Axes{&spec.kernel}, within(1, most), "places", "extents of the window");
  section.add("stride", Axes{&spec.stride}, within(1, most), "places", "from one window to the next");
  addPadding(section, spec, "zeros on each side; same: as many as make input / stride windows");
  section.add("dilation", Axes{&spec.dilation}, within(1, most), "places", "between neighbours in a window");
  section.add("groups", &spec.groups, within(1, most), "groups",
              "parts of the channels, each seen by its part of the output alone");
  section.add("bias", &spec.bias, "whether b is there, one value a channel");
  addActivation(section, spec, "function of each output");
  addRepeat(section, spec);
  return section;
}

Section describePool(const std::string& name, const std::string& text, LayerSpec& spec) {
  Section section{name, text};
  section.add("kernel", Axes{&spec.window}, within(1, most), "places", "extents of the window");
  section.add("stride", Axes{&spec.step}, within(0, most), "places",
              "from one window to the next; 0: as far as the window is wide");
  addPadding(section, spec, "places on each side that do not count");
  addRepeat(section, spec);
  return section;
}

} // namespace

Section describeConv2d(LayerSpec& spec) {
  return describeConvolution("conv2d",
                             "Convolution of an image {channels, rows, columns}: activation(W * x + b). "
                             "kernel, stride, padding and dilation are an integer, or a list of one for "
                             "rows and one for columns.",
                             spec);
}

Section describeConv3d(LayerSpec& spec) {
  return describeConvolution("conv3d",
                             "The same of a volume {channels, depth, rows, columns}; lists have three "
                             "integers.",
                             spec);
}

Section describeMaxPool(LayerSpec& spec) {
  return describePool("max-pool",
                      "The largest value of each window, channel by channel, of an image or a volume.", spec);
}

Section describeAveragePool(LayerSpec& spec) {
  return describePool("average-pool", "The mean of each window, channel by channel, of an image or a volume.",
                      spec);
}

Section describeGlobalAveragePool(LayerSpec& spec) {
  Section section{"global-average-pool", "The mean of each channel of an image or a volume: {channels}."};
  addRepeat(section, spec);
  return section;
}

Section describeFlatten(LayerSpec& spec) {
  Section section{"flatten", "All values of a sample in a row; a dense layer does so by itself."};
  addRepeat(section, spec);
  return section;
}

Section describeBatchNorm(LayerSpec& spec) {
  Section section{
      "batch-norm",
      "activation(scale (x - mean) / sqrt(variance + epsilon) + shift), with mean and variance of "
      "each channel of an image or a volume, or of each value of a vector, over the batch. "
      "Evaluation takes running ones."};
  section.add("epsilon", &spec.epsilon, within(1e-30, 1), "", "added to the variance");
  section.add("momentum", &spec.momentum, within(0, 1), "",
              "weight of the latest batch in the running mean and variance");
  section.add("replicas", &spec.replicas,
              "mean and variance over what all replicas have of a microbatch; otherwise over what each has");
  addActivation(section, spec, "function of each output");
  addRepeat(section, spec);
  return section;
}

} // namespace partita
