#include "partita/plan/parts/part_traffic.hpp"

#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/run_length.hpp"

namespace partita {

namespace {

/// Sums up what a part sends.
class TrafficCount {
 public:
  TrafficCount(int part, std::int64_t value_bytes) : _part(part), _value_bytes(value_bytes) {}

  /// All chunks pass through each rank of a ring except one.
  void ring(const std::vector<std::int64_t>& chunks, int except) {
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (static_cast<int>(i) == except || chunks[i] == 0) continue;
      ++_sum.messages;
      _sum.bytes += chunks[i] * _value_bytes;
    }
  }
  void gather(const std::vector<std::int64_t>& chunks, int place) {
    ring(chunks, (place + 1) % static_cast<int>(chunks.size()));
  }
  void reduce(const std::vector<std::int64_t>& chunks, int place) { ring(chunks, place); }
  /// Values that all parts add up.
  void sum(std::int64_t values, int parts) {
    std::vector<std::int64_t> chunks;
    for (int i = 0; i < parts; ++i) chunks.push_back(values * (i + 1) / parts - values * i / parts);
    reduce(chunks, _part);
    gather(chunks, _part);
  }

  /// What the part gives to the others in the forward pass, or returns in the backward pass.
  void halo(const ExchangePlan& plan, std::int64_t rows, bool forward) {
    for (int other = 0; other < static_cast<int>(plan.owned.size()); ++other) {
      if (other == _part) continue;
      const AxisRange places = forward ? plan.sent(_part, other) : plan.sent(other, _part);
      if (places.size() == 0) continue;
      ++_sum.messages;
      _sum.bytes += rows * plan.items * places.size() * plan.place_values * _value_bytes;
    }
  }

  const PartTraffic& total() const { return _sum; }

 private:
  int _part;
  std::int64_t _value_bytes;
  PartTraffic _sum;
};

/// Does the layer add up sums over its places of the batch?
bool normsByPlaces(const LayerPlan& layer) {
  return layer.part && layer.part->by_places && !layer.statisticsShapes().empty();
}

void countForward(const LayerPlan& layer, std::int64_t rows, TrafficCount& count);
void countBackward(const LayerPlan& layer, std::int64_t rows, TrafficCount& count);

std::vector<std::int64_t> chunksOf(const ExchangePlan& plan, std::int64_t rows) {
  std::vector<std::int64_t> chunks;
  for (const std::int64_t width : plan.widths) chunks.push_back(rows * plan.items * width);
  return chunks;
}

void countForward(const std::vector<LayerPlan>& layers, std::int64_t rows, TrafficCount& count) {
  for (const LayerPlan& layer : layers) countForward(layer, rows, count);
}

/// Nothing before the first layer with parameters is computed unless the gradient of the input is.
void countBackward(const std::vector<LayerPlan>& layers, std::int64_t rows, bool input_gradient,
                   TrafficCount& count) {
  std::size_t first = 0;
  while (!input_gradient && first < layers.size() && layers[first].parameters() == 0) ++first;
  for (std::size_t i = layers.size(); i-- > first;) {
    const LayerPlan& layer = layers[i];
    const bool wanted = input_gradient || i > first;
    if (layer.group()) {
      if (layer.spec.recompute) countForward(layer, rows, count);
      countBackward(layer.body, rows, wanted, count);
      countBackward(layer.shortcut, rows, wanted, count);
    } else if (wanted) {
      countBackward(layer, rows, count);
    }
  }
}

void countForward(const LayerPlan& layer, std::int64_t rows, TrafficCount& count) {
  countForward(layer.body, rows, count);
  countForward(layer.shortcut, rows, count);
  if (layer.part && layer.part->partial_output) count.sum(rows * layer.outputs(), layer.part->parts);
  if (normsByPlaces(layer)) { // sums and their number, then squares
    count.sum(layer.in[0] + 1, layer.part->parts);
    count.sum(layer.in[0], layer.part->parts);
  }
  if (!layer.exchange) return;
  const ExchangePlan& plan = *layer.exchange;
  if (plan.kind == PartStep::halo) return count.halo(plan, rows, true);
  if (plan.kind == PartStep::gather_slice || plan.kind == PartStep::gather_reduce)
    count.gather(chunksOf(plan, rows), plan.place);
  if (plan.kind == PartStep::reduce_gather) count.reduce(chunksOf(plan, rows), plan.place);
}

void countBackward(const LayerPlan& layer, std::int64_t rows, TrafficCount& count) {
  if (layer.part && layer.part->partial_input_gradient) count.sum(rows * layer.inputs(), layer.part->parts);
  if (normsByPlaces(layer)) count.sum(2 * layer.in[0] + 1, layer.part->parts);
  if (!layer.exchange) return;
  const ExchangePlan& plan = *layer.exchange;
  if (plan.kind == PartStep::halo) return count.halo(plan, rows, false);
  if (plan.kind == PartStep::slice_gather || plan.kind == PartStep::reduce_gather)
    count.gather(chunksOf(plan, rows), plan.place);
  if (plan.kind == PartStep::gather_reduce) count.reduce(chunksOf(plan, rows), plan.place);
}

/// Samples of one of several shares, as even as possible: the first ones are the larger ones.
std::int64_t shareOf(std::int64_t samples, std::int64_t shares, std::int64_t index) {
  return samples / shares + (index < samples % shares ? 1 : 0);
}

} // namespace

PartTraffic& PartTraffic::operator+=(const PartTraffic& other) {
  messages += other.messages;
  bytes += other.bytes;
  return *this;
}

PartTraffic partTraffic(const StagePlan& own, int part, std::int64_t rows, std::int64_t real_bytes,
                        bool input_gradient) {
  TrafficCount count(part, real_bytes);
  countForward(own.layers, rows, count);
  countBackward(own.layers, rows, input_gradient, count);
  return count.total();
}

PartTraffic stepTraffic(const RunConfig& config, const Partition& partition, const GridPlan& grid,
                        std::int64_t real_bytes) {
  PartTraffic sum;
  for (int part = 0; part < grid.parts && grid.parts > 1; ++part) {
    for (const StagePlan& stage : partition.stages) {
      const StagePlan own = partOfStage(stage, config.strategy, part);
      for (int replica = 0; replica < grid.replicas; ++replica) {
        const std::int64_t share = shareOf(config.training.batch, grid.replicas, replica),
                           count = microbatchesOf(config.strategy, share);
        for (std::int64_t i = 0; i < count; ++i)
          sum += partTraffic(own, part, shareOf(share, count, i), real_bytes, !stage.first());
      }
    }
  }
  return sum;
}

} // namespace partita
