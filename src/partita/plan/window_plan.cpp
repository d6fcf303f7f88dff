#include "partita/plan/window_plan.hpp"

#include "partita/config/user_error.hpp"

#include <algorithm>

namespace partita {

namespace {

constexpr std::int64_t column_budget = scratchBudget(1 << 18, 1 << 26); // fits into the cache of a core
constexpr std::int64_t narrow_budget = 1 << 17;                         // values of inputs and outputs
constexpr std::int64_t packed_budget = 1 << 20; // values of inputs and outputs; fewer rows would cost speed
constexpr std::int64_t real_budget = scratchBudget(1 << 20, 1 << 24); // of 16-bit ones, converted

struct WindowSizes {
  const AxisSizes &kernel, &stride, &padding, &dilation;
};

void checkCount(const LayerPlan& plan, const AxisSizes& sizes, const char* key, std::size_t axes) {
  if (sizes.values.size() != 1 && sizes.values.size() != axes) {
    throw UserError(plan.entry + ": " + key + " has " + std::to_string(sizes.values.size()) +
                    " values, but the input " + toText(plan.in) + " has " + std::to_string(axes) +
                    " axes besides the channels");
  }
}

/// One axis: the number of windows, and the padding before the first place.
void placeWindows(const LayerPlan& plan, const AxisSizes& padding, std::size_t axis, std::size_t a,
                  WindowPlan& w) {
  const std::int64_t reach = w.dilation[a] * (w.kernel[a] - 1) + 1;
  if (padding.same) {
    w.out[a] = (w.in[a] + w.stride[a] - 1) / w.stride[a];
    const std::int64_t needed = (w.out[a] - 1) * w.stride[a] + reach - w.in[a];
    w.before[a] = std::max<std::int64_t>(0, needed) / 2;
    return;
  }
  w.before[a] = padding.at(axis);
  const std::int64_t after = padding.after.empty() ? w.before[a] : padding.after.at(axis);
  const std::int64_t spare = w.in[a] + w.before[a] + after - reach;
  if (spare < 0) {
    throw UserError(plan.entry + ": a window of " + std::to_string(reach) +
                    " positions does not fit an input of " + toText(plan.in) +
                    (w.before[a] > 0 ? " with its padding" : ""));
  }
  w.out[a] = spare / w.stride[a] + 1;
}

WindowPlan windowsOf(const LayerPlan& plan, const WindowSizes& sizes) {
  const std::size_t axes = plan.in.size() - 1;
  checkCount(plan, sizes.kernel, "kernel", axes);
  checkCount(plan, sizes.stride, "stride", axes);
  checkCount(plan, sizes.padding, "padding", axes);
  checkCount(plan, sizes.dilation, "dilation", axes);
  WindowPlan w{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::size_t a = axis + 3 - axes;
    w.in[a] = plan.in[axis + 1];
    w.kernel[a] = sizes.kernel.at(axis);
    w.stride[a] = sizes.stride.at(axis) > 0 ? sizes.stride.at(axis) : w.kernel[a];
    w.dilation[a] = sizes.dilation.at(axis);
    placeWindows(plan, sizes.padding, axis, a, w);
  }
  return w;
}

} // namespace

bool isImage(const Shape& shape) {
  return shape.size() == 3;
}
bool isVolume(const Shape& shape) {
  return shape.size() == 4;
}

bool WindowPlan::evenlyPadded() const {
  for (int a = 0; a < 3; ++a) {
    const std::int64_t left = in[a] + 2 * before[a] - dilation[a] * (kernel[a] - 1) - 1;
    if (left < 0 || left / stride[a] + 1 != out[a]) return false;
  }
  return true;
}

Shape shapeOf(std::int64_t channels, const WindowPlan& windows, const Shape& in) {
  Shape shape{channels};
  for (std::size_t a = isVolume(in) ? 0 : 1; a < 3; ++a) shape.push_back(windows.out[a]);
  return shape;
}

WindowPlan convolutionWindows(const LayerPlan& plan) {
  const ConvolutionKeys& keys = plan.spec.convolution;
  return windowsOf(plan, {keys.kernel, keys.stride, keys.padding, keys.dilation});
}

WindowPlan poolingWindows(const LayerPlan& plan) {
  static const AxisSizes dense{{1}};
  if (!isImage(plan.in) && !isVolume(plan.in)) {
    throw UserError(plan.entry + ": " + plan.spec.type + " needs an image or a volume, but its input is " +
                    toText(plan.in));
  }
  const WindowPlan windows =
      windowsOf(plan, {plan.spec.pool.kernel, plan.spec.pool.stride, plan.spec.pool.padding, dense});
  for (std::size_t a = 0; a < 3; ++a) {
    if (windows.before[a] >= windows.kernel[a]) {
      throw UserError(plan.entry + ": a padding of " + std::to_string(windows.before[a]) +
                      " leaves windows of " + std::to_string(windows.kernel[a]) + " positions empty");
    }
  }
  return windows;
}

WindowPlan wholeWindow(const LayerPlan& plan) {
  WindowPlan w{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
  for (std::size_t axis = 1; axis < plan.in.size(); ++axis) {
    const std::size_t a = axis + 3 - plan.in.size();
    w.in[a] = w.kernel[a] = w.stride[a] = plan.in[axis];
  }
  return w;
}

ConvolutionPlan::ConvolutionPlan(const LayerPlan& plan)
    : windows(convolutionWindows(plan)), in_channels(plan.in.front()),
      out_channels(plan.spec.convolution.channels), groups(plan.spec.convolution.groups) {
  if (in_channels % groups != 0 || out_channels % groups != 0) {
    throw UserError(plan.entry + ": " + std::to_string(in_channels) + " input channels and " +
                    std::to_string(out_channels) + " output channels cannot be divided into " +
                    std::to_string(groups) + " groups");
  }
}

bool ConvolutionPlan::pointwise() const {
  for (std::size_t a = 0; a < 3; ++a)
    if (windows.kernel[a] != 1 || windows.stride[a] != 1 || windows.before[a] != 0 ||
        windows.out[a] != windows.in[a])
      return false;
  return true;
}

std::int64_t ConvolutionPlan::rowsAtOnce(std::int64_t rows) const {
  if (pointwise()) return rows;
  const std::int64_t values_per_row = groups * depth() * windows.outPlaces();
  return std::clamp<std::int64_t>(column_budget / values_per_row, 1, std::max<std::int64_t>(rows, 1));
}

std::int64_t ConvolutionPlan::columnValues(std::int64_t rows) const {
  return pointwise() ? 0 : groups * depth() * windows.outPlaces() * rowsAtOnce(rows);
}

std::int64_t ConvolutionPlan::copiedWeights() const {
  const bool same_order = windows.taps() == 1 || in_channels == groups;
  return same_order ? 0 : out_channels * depth();
}

namespace {

constexpr std::int64_t channel_lanes = 16; // of a vector register with AVX-512

/// Rounded up to half of such a register.
std::int64_t halfVectors(std::int64_t channels) {
  constexpr std::int64_t lanes = 8;
  return (channels + lanes - 1) / lanes * lanes;
}

} // namespace

bool ConvolutionPlan::packable() const {
  constexpr std::int64_t least_of_group = 4; // fewer are mostly padding
  if (plans_for_device) return false;
  if (groups == 1 || depthwise()) return in_channels >= channel_lanes && out_channels >= channel_lanes;
  return in_channels / groups >= least_of_group && out_channels / groups >= least_of_group;
}

bool ConvolutionPlan::depthwise() const {
  return groups > 1 && in_channels == groups && out_channels == groups;
}

bool ConvolutionPlan::fillsVectors() const {
  return in_channels % channel_lanes == 0 && out_channels % channel_lanes == 0;
}

std::int64_t ConvolutionPlan::mostPackedRows(std::int64_t rows) const {
  const std::int64_t per_row = in_channels * windows.inPlaces() + out_channels * windows.outPlaces();
  return std::clamp<std::int64_t>(packed_budget / per_row, 1, std::max<std::int64_t>(rows, 1));
}

std::int64_t ConvolutionPlan::packedRows(std::int64_t rows) const {
  const std::int64_t most = mostPackedRows(rows), parts = (rows + most - 1) / most;
  return parts == 0 ? 0 : (rows + parts - 1) / parts;
}

std::int64_t ConvolutionPlan::rowsInReal(std::int64_t rows) const {
  const std::int64_t per_row = 2 * in_channels * windows.inPlaces() + out_channels * windows.outPlaces();
  return std::clamp<std::int64_t>(real_budget / per_row, 1, std::max<std::int64_t>(rows, 1));
}

std::int64_t ConvolutionPlan::valuesInReal(std::int64_t rows) const {
  return rowsInReal(rows) * (2 * in_channels * windows.inPlaces() + out_channels * windows.outPlaces());
}

std::int64_t ConvolutionPlan::packedWeights() const {
  const auto padded = [](std::int64_t channels, std::int64_t block) {
    return (channels + block - 1) / block * block;
  };
  if (groups == 1) return padded(out_channels, 64) * padded(in_channels, 64) * windows.taps();
  if (depthwise()) return padded(groups, channel_lanes) * windows.taps();
  const auto of_group = [&](std::int64_t channels) {
    return padded(channels, channels <= 16 ? 16 : channels <= 32 ? 32 : 64);
  };
  return groups * of_group(out_channels / groups) * of_group(in_channels / groups) * windows.taps();
}

bool ConvolutionPlan::narrow() const {
  constexpr std::int64_t most_outputs = 64; // in the registers of a core with AVX-512
  return !plans_for_device && groups == 1 && out_channels <= most_outputs && !pointwise();
}

std::int64_t ConvolutionPlan::paddedValues() const {
  std::int64_t places = 1;
  bool inside = true; // all windows
  for (int a = 0; a < 3; ++a) {
    inside = inside && windows.before[a] <= 0 && windows.seen(a) - windows.before[a] <= windows.in[a];
    places *= windows.seen(a);
  }
  return inside ? 0 : places * in_channels;
}

std::int64_t ConvolutionPlan::narrowRows(std::int64_t rows) const {
  const std::int64_t per_row = in_channels * windows.inPlaces() + out_channels * windows.outPlaces();
  return std::clamp<std::int64_t>(narrow_budget / per_row, 1, std::max<std::int64_t>(rows, 1));
}

std::int64_t ConvolutionPlan::narrowWidth() const {
  return halfVectors(out_channels);
}

std::int64_t ConvolutionPlan::gradientSlices() const {
  constexpr std::int64_t most = 16, values = 384; // of all slices: enough for all cores
  return std::clamp<std::int64_t>(values / depth(), 1, most);
}

std::int64_t ConvolutionPlan::runLength() const {
  return windows.dilation[2] == 1 ? windows.kernel[2] * in_channels : in_channels;
}

std::int64_t ConvolutionPlan::runWidth() const {
  constexpr std::int64_t lanes = 16;
  return (runLength() + lanes - 1) / lanes * lanes;
}

bool ConvolutionPlan::scatters() const {
  constexpr std::int64_t shortest_run = 16, most_places = 1 << 12;
  return narrow() && windows.taps() > 1 && windows.in[0] == 1 && runLength() >= shortest_run &&
         windows.inPlaces() <= most_places;
}

bool ConvolutionPlan::winograd() const {
  constexpr std::int64_t fewest_channels = 16; // otherwise transforms take longer than they save
  constexpr double least_gain = 1.5;           // of plain products to those of whole tiles
  const WindowPlan& w = windows;
  if (plans_for_device || groups != 1 || std::min(in_channels, out_channels) < fewest_channels) return false;
  for (int a = w.flat() ? 1 : 0; a < 3; ++a)
    if (w.kernel[a] != 3 || w.stride[a] != 1 || w.dilation[a] != 1) return false;
  std::int64_t tiles = 1;
  for (const std::int64_t extent : w.out) tiles *= (extent + 1) / 2;
  return static_cast<double>(w.taps() * w.outPlaces()) >=
         least_gain * static_cast<double>(winogradPoints() * tiles);
}

std::int64_t ConvolutionPlan::winogradPoints() const {
  return windows.flat() ? 16 : 64;
}

std::int64_t ConvolutionPlan::winogradTiles() const {
  constexpr std::int64_t budget = 1 << 17;             // fits into the cache of a core
  const std::int64_t least = windows.flat() ? 96 : 48; // enough for all cores, and for long sums
  return std::max(least, budget / (winogradPoints() * (in_channels + out_channels)) / 12 * 12);
}

std::int64_t ConvolutionPlan::winogradWeights() const {
  return winogradPoints() *
         std::max(in_channels * halfVectors(out_channels), out_channels * halfVectors(in_channels));
}

std::int64_t ConvolutionPlan::winogradPlace() const {
  const std::int64_t channels = std::max(in_channels, out_channels);
  return (channels + packed_alignment - 1) / packed_alignment * packed_alignment;
}

std::int64_t ConvolutionPlan::workValues(std::int64_t rows) const {
  constexpr std::int64_t least_on_device = 1 << 23; // libraries of vendors want some in any case
  std::int64_t columns = columnValues(rows) + 2 * copiedWeights();
  if (plans_for_device)
    return std::max(columnValues(rows), least_on_device) + 2 * copiedWeights() + packed_alignment;
  if (depthwise()) columns = std::max(columns, depthwise_slices * groups * windows.taps());
  if (narrow()) {
    const std::int64_t weights = std::max(depth() + 1, gradientSlices() * depth()) * narrowWidth();
    columns = std::max(columns, weights + paddedValues() * narrowRows(rows));
    if (scatters())
      columns = std::max(columns, out_channels * depth() / runLength() * runWidth() + packed_alignment);
  }
  if (winograd()) {
    const std::int64_t wide = halfVectors(out_channels),
                       padding = packed_alignment * (1 + wide / 8), // between points, see `pointStep`
        tiles = winogradPoints() * (winogradTiles() * (in_channels + wide) + padding);
    columns = std::max(columns, packed_alignment + winogradPlace() + winogradWeights() + tiles);
  }
  if (!packable()) return columns;
  const std::int64_t activations =
      windows.taps() == 1 && groups == 1 ? 0 : // only convolved where they lie
          mostPackedRows(rows) * (in_channels * windows.inPlaces() + out_channels * windows.outPlaces());
  return std::max(columns, activations + 2 * packedWeights() + 5 * packed_alignment);
}

ConvolutionBlock::ConvolutionBlock(const ConvolutionPlan& whole, const Block& outputs)
    : plan(whole), first_in(0), first_out(0) {
  const WindowPlan& w = whole.windows;
  for (std::size_t a = 0; a < 3; ++a) {
    const IndexRange& own = outputs.axes[a];
    const std::int64_t reach = w.dilation[a] * (w.kernel[a] - 1) + 1,
                       begin = own.begin * w.stride[a] - w.before[a],
                       end = (own.end - 1) * w.stride[a] - w.before[a] + reach,
                       first = std::max<std::int64_t>(0, begin);
    whole_in[a] = w.in[a];
    whole_out[a] = w.out[a];
    before[a] = -begin;
    plan.windows.in[a] = std::min(w.in[a], end) - first;
    plan.windows.out[a] = own.size();
    plan.windows.before[a] = first - begin;
    first_in = first_in * w.in[a] + first;
    first_out = first_out * w.out[a] + own.begin;
  }
}

std::vector<Block> aroundInterior(const Block& interior, const std::int64_t (&extents)[3]) {
  std::vector<Block> around;
  Block left; // without the blocks found so far
  for (std::size_t a = 0; a < 3; ++a) left.axes[a] = {0, extents[a]};
  for (std::size_t a = 0; a < 3; ++a) {
    const IndexRange inside = interior.axes[a];
    for (const IndexRange& side : {IndexRange{0, inside.begin}, IndexRange{inside.end, extents[a]}}) {
      if (side.size() == 0) continue;
      around.push_back(left);
      around.back().axes[a] = side;
    }
    left.axes[a] = inside;
  }
  return around;
}

} // namespace partita
