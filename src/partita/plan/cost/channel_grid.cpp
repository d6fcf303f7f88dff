#include "partita/plan/cost/channel_grid.hpp"

#include "partita/plan/cost/cost_model.hpp"

#include <algorithm>
#include <limits>

namespace partita {

GridExchange gridExchange(const LayerCost& layer, const ChannelGrid& grid, double samples) {
  const auto parts = static_cast<double>(grid.inputs * grid.outputs);
  const double input = samples * layer.inputs * bytes_per_item / parts;
  const double output = samples * layer.outputs * bytes_per_item / parts;
  const Messages of_input = ringAllGather(grid.outputs, input);
  const Messages of_output = ringAllGather(grid.inputs, output); // a reduce-scatter has the same messages
  return {of_input, of_output, of_output, of_input};
}

ChannelGrid bestGrid(const LayerCost& layer, std::int64_t parts, double samples, const Link& link) {
  ChannelGrid best{1, parts};
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t inputs = 1; inputs <= parts; ++inputs) {
    if (parts % inputs != 0) continue;
    const ChannelGrid grid{inputs, parts / inputs};
    const GridExchange exchange = gridExchange(layer, grid, samples);
    const double seconds = link.seconds(exchange.gather) + link.seconds(exchange.reduce_scatter);
    if (seconds < least) best = grid;
    least = std::min(least, seconds);
  }
  return best;
}

} // namespace partita
