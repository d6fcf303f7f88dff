#include "partita/plan/layer_rules.hpp"
#include "partita/plan/parts/divide_layers.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace partita {

namespace {

/// The places along an axis that the windows of some outputs see: those inside the input, and how many they
/// see before and after it.
struct Seen {
  IndexRange inside;
  std::int64_t before = 0, after = 0;
};

/// `divided`: is the axis divided? Otherwise a part has all places, seen or not.
Seen seenBy(const WindowPlan& windows, std::size_t a, const IndexRange& outputs, bool divided) {
  const std::int64_t reach = windows.dilation[a] * (windows.kernel[a] - 1) + 1,
                     begin = outputs.begin * windows.stride[a] - windows.before[a],
                     end = (outputs.end - 1) * windows.stride[a] - windows.before[a] + reach;
  const IndexRange inside = divided
                                ? IndexRange{std::max<std::int64_t>(0, begin), std::min(windows.in[a], end)}
                                : IndexRange{0, windows.in[a]};
  return {inside, inside.begin - begin, end - inside.end};
}

/// The places that the windows of a block of outputs see.
Block seenBlock(const WindowPlan& windows, const Block& outputs, const PlaceGrid& grid) {
  Block block;
  for (std::size_t a = 0; a < block.axes.size(); ++a)
    block.axes[a] = seenBy(windows, a, outputs.axes[a], grid[a] > 1).inside;
  return block;
}

/// The places along an axis that the windows of each range of outputs see.
std::vector<IndexRange> seenRanges(const LayerPlan& layer, const WindowPlan& windows, const PlaceGrid& grid,
                                   std::size_t a) {
  const std::int64_t outputs = allPlaces(layer.out).axes[a].size();
  std::vector<IndexRange> seen;
  seen.reserve(static_cast<std::size_t>(grid[a]));
  for (int i = 0; i < grid[a]; ++i)
    seen.push_back(seenBy(windows, a, rangeOf(outputs, grid[a], i), grid[a] > 1).inside);
  return seen;
}

/// Can parts compute blocks of the outputs, each of which sees some places of the input?
bool dividesWindows(const LayerPlan& layer, const WindowPlan& windows, const PlaceGrid& grid) {
  if (!placesDivisible(layer.in, grid) || !placesDivisible(layer.out, grid)) return false;
  for (std::size_t a = 0; a < grid.size(); ++a)
    for (const IndexRange& seen : seenRanges(layer, windows, grid, a))
      if (seen.size() <= 0) return false;
  return true;
}

/// The outputs of a part whose windows see only its own places, counted from its first output. Empty if they
/// are fewer than three quarters of its outputs: the blocks around them are small convolutions, which are
/// slow and would be a large share of the work.
Block interiorOf(const WindowPlan& windows, const Block& own, const Block& outputs) {
  Block interior;
  for (std::size_t a = 0; a < interior.axes.size(); ++a) {
    const std::int64_t reach = windows.dilation[a] * (windows.kernel[a] - 1) + 1, stride = windows.stride[a],
                       before = windows.before[a];
    if (before >= reach || (windows.out[a] - 1) * stride - before >= windows.in[a])
      return {}; // some windows see nothing but padding
    const IndexRange &has = own.axes[a], &out = outputs.axes[a];
    IndexRange inside = out;
    if (has.begin > 0) inside.begin = std::max(out.begin, (has.begin + before + stride - 1) / stride);
    if (has.end < windows.in[a]) inside.end = std::min(out.end, (has.end + before - reach + stride) / stride);
    interior.axes[a] = {inside.begin - out.begin, std::max(inside.begin, inside.end) - out.begin};
  }
  return 4 * interior.places() >= 3 * outputs.places() ? interior : Block{};
}

/// Gives the part's windows their own padding on each side.
void setPadding(LayerPlan& own, const WindowPlan& windows, const Block& outputs, const PlaceGrid& grid) {
  AxisSizes& padding =
      own.rules().work() == LayerWork::convolution ? own.spec.convolution.padding : own.spec.pool.padding;
  padding = {{}, false, {}};
  for (std::size_t axis = 1; axis < own.in.size(); ++axis) {
    const std::size_t a = placeAxis(own.in, axis);
    const Seen seen = seenBy(windows, a, outputs.axes[a], grid[a] > 1);
    padding.values.push_back(seen.before);
    padding.after.push_back(seen.after);
  }
}

} // namespace

PlaceCost placeCost(const LayerPlan& layer, const PlaceGrid& grid) {
  PlaceCost cost;
  for (const auto* inside : {&layer.body, &layer.shortcut})
    for (const LayerPlan& each : *inside) cost += placeCost(each, grid);
  const std::optional<WindowPlan> windows =
      layer.group() ? std::optional<WindowPlan>() : layer.rules().windows(layer);
  if (!windows || !dividesWindows(layer, *windows, grid)) return cost;
  // All blocks of a grid together have the product of what its axes have.
  std::int64_t seen = 1, own = 1;
  for (std::size_t a = 0; a < grid.size(); ++a) {
    const std::int64_t inputs = allPlaces(layer.in).axes[a].size();
    const std::vector<IndexRange> ranges = seenRanges(layer, *windows, grid, a);
    std::int64_t seen_here = 0, own_here = 0;
    for (int i = 0; i < grid[a]; ++i) {
      const IndexRange range = ranges[static_cast<std::size_t>(i)], has = rangeOf(inputs, grid[a], i);
      seen_here += range.size();
      own_here += std::max<std::int64_t>(0, std::min(range.end, has.end) - std::max(range.begin, has.begin));
    }
    seen *= seen_here;
    own *= own_here;
  }
  cost.halo += layer.in[0] * (seen - own);
  cost.outputs += layer.outputs();
  return cost;
}

/// Layers with windows get the halos that their windows see. Every part computes layers that need all places,
/// or that have too few of them.
void LayerDivider::addByPlaces(PartChain& chain, const LayerPlan& layer) {
  const std::optional<WindowPlan> windows = layer.rules().windows(layer);
  if (windows && dividesWindows(layer, *windows, _grid)) return addWindows(chain, layer, *windows);
  const bool inside = layer.rules().channelwise() && layer.in == layer.out && !windows;
  if (inside && chain.flow().layout == Layout::places) return chain.addInside(layer);
  chain.addWhole(layer);
}

void LayerDivider::addWindows(PartChain& chain, const LayerPlan& layer, const WindowPlan& windows) {
  const Flow in = placeFlow(layer.in, _grid), out = placeFlow(layer.out, _grid);
  chain.divideAs(layer, in);
  ExchangePlan halo;
  halo.kind = PartStep::halo;
  halo.channels = layer.in.front();
  halo.place = _part;
  halo.owned = in.blocks;
  for (const Block& block : out.blocks) halo.needed.push_back(seenBlock(windows, block, _grid));
  const Block &seen = halo.needed[static_cast<std::size_t>(_part)],
              &outputs = out.blocks[static_cast<std::size_t>(_part)];
  LayerPlan own = layer;
  for (std::size_t axis = 1; axis < layer.in.size(); ++axis)
    own.in[axis] = seen.axes[placeAxis(layer.in, axis)].size();
  own.out = out.own(_part);
  setPadding(own, windows, outputs, _grid);
  const bool exchanges = !(halo.needed == halo.owned);
  if (exchanges) chain.addExchange(layer, halo, in.own(_part), own.in);
  chain.addPlaces(layer, own, out,
                  exchanges ? interiorOf(windows, in.blocks[static_cast<std::size_t>(_part)], outputs)
                            : Block{});
}

} // namespace partita
