#include "partita/plan/parts/part_traffic.hpp"

#include "partita/config/text.hpp"
#include "partita/plan/parts/hidden_exchange.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <utility>

namespace partita {

namespace {

/// Lists what a part sends.
class MessageList {
 public:
  MessageList(int part, std::int64_t value_bytes) : _part(part), _value_bytes(value_bytes) {}

  /// The following messages are sent for the layer at `place`.
  void begin(const std::string& place, bool backward) {
    _place = place;
    _backward = backward;
    _behind = nullptr;
  }
  void endForwardPass() { _forward_pass = false; }
  /// The first message of the next ring, or the next halo, travels while this layer computes.
  void hideNextBehind(const LayerPlan* layer) { _behind = layer; }
  void gather(const std::vector<std::int64_t>& chunks, int place) {
    ring(PartExchangeKind::gather, chunks, place);
  }
  void reduce(const std::vector<std::int64_t>& chunks, int place) {
    ring(PartExchangeKind::reduce, chunks, place - 1);
  }
  /// Values that all parts add up.
  void sum(PartExchangeKind kind, std::int64_t values, int parts) {
    std::vector<std::int64_t> chunks;
    chunks.reserve(static_cast<std::size_t>(parts));
    for (int i = 0; i < parts; ++i) chunks.push_back(shareOf(values, i, parts).size());
    ring(kind, chunks, _part - 1);
    ring(kind, chunks, _part);
  }
  /// What the part sends to others in the forward pass, or returns to them in the backward pass.
  void halo(const ExchangePlan& plan, std::int64_t rows, bool forward) {
    for (int other = 0; other < static_cast<int>(plan.owned.size()); ++other) {
      if (other == _part) continue;
      add(PartExchangeKind::halo,
          rows * (forward ? plan.valuesSent(_part, other) : plan.valuesSent(other, _part)), _behind);
    }
  }

  std::vector<PartMessage> take() { return std::move(_messages); }

 private:
  /// A rank of a ring sends all chunks except one: `first`, the one before it, and so on.
  void ring(PartExchangeKind kind, const std::vector<std::int64_t>& chunks, int first) {
    const int count = static_cast<int>(chunks.size());
    for (int i = 0; i + 1 < count; ++i)
      add(kind, chunks[static_cast<std::size_t>(ringChunk(first, i, count))],
          std::exchange(_behind, nullptr));
  }
  void add(PartExchangeKind kind, std::int64_t values, const LayerPlan* behind) {
    if (values > 0)
      _messages.push_back({kind, values * _value_bytes, _place, _backward, behind, _forward_pass});
  }

  int _part;
  std::int64_t _value_bytes;
  std::string _place;
  bool _backward = false, _forward_pass = true;
  const LayerPlan* _behind = nullptr;
  std::vector<PartMessage> _messages;
};

/// Does the layer add up statistics over the places of all parts?
bool normsByPlaces(const LayerPlan& layer) {
  return layer.part && layer.part->by_places && !layer.statisticsShapes().empty();
}

void listForward(const LayerPlan& layer, const LayerPlan* next, std::int64_t rows, MessageList& list);
void listBackward(const LayerPlan& layer, std::int64_t rows, MessageList& list);

std::vector<std::int64_t> chunksOf(const ExchangePlan& plan, std::int64_t rows) {
  std::vector<std::int64_t> chunks;
  for (const std::int64_t width : plan.widths) chunks.push_back(rows * plan.items * width);
  return chunks;
}

void listForward(const std::vector<LayerPlan>& layers, std::int64_t rows, MessageList& list) {
  for (std::size_t i = 0; i < layers.size(); ++i)
    listForward(layers[i], i + 1 < layers.size() ? &layers[i + 1] : nullptr, rows, list);
}

/// Layers before the first one with parameters have no backward pass unless the gradient of the input is
/// needed.
void listBackward(const std::vector<LayerPlan>& layers, std::int64_t rows, bool input_gradient,
                  MessageList& list) {
  std::size_t first = 0;
  while (!input_gradient && first < layers.size() && layers[first].parameters() == 0) ++first;
  for (std::size_t i = layers.size(); i-- > first;) {
    const LayerPlan& layer = layers[i];
    list.begin(layer.place, true);
    if (layer.part && layer.part->by_positions && layer.parameters() > 0)
      list.sum(PartExchangeKind::sum, layer.parameters(), layer.part->parts);
    const bool wanted = input_gradient || i > first;
    if (layer.group()) {
      if (layer.spec.recompute) listForward(layer, nullptr, rows, list);
      listBackward(layer.body, rows, wanted, list);
      listBackward(layer.shortcut, rows, wanted, list);
    } else if (wanted) {
      if (hiddenExchange(layers, i) == HiddenExchange::sum) list.hideNextBehind(&layer);
      if (i + 1 < layers.size() && hiddenExchange(layers, i + 1) == HiddenExchange::before)
        list.hideNextBehind(&layers[i + 1]);
      listBackward(layer, rows, list);
    }
  }
}

void listForward(const LayerPlan& layer, const LayerPlan* next, std::int64_t rows, MessageList& list) {
  listForward(layer.body, rows, list);
  listForward(layer.shortcut, rows, list);
  list.begin(layer.place, false);
  if (layer.part && layer.part->partial_output)
    list.sum(PartExchangeKind::sum, rows * layer.outputs(), layer.part->parts);
  if (normsByPlaces(layer)) { // sums and their number, then squares
    list.sum(PartExchangeKind::norm, layer.in[0] + 1, layer.part->parts);
    list.sum(PartExchangeKind::norm, layer.in[0], layer.part->parts);
  }
  if (!layer.exchange) return;
  const ExchangePlan& plan = *layer.exchange;
  if (next != nullptr && next->part && next->part->interior.places() > 0) list.hideNextBehind(next);
  if (plan.kind == PartStep::halo) return list.halo(plan, rows, true);
  if (plan.kind == PartStep::gather_slice || plan.kind == PartStep::gather_reduce)
    list.gather(chunksOf(plan, rows), plan.place);
  if (plan.kind == PartStep::reduce_gather) list.reduce(chunksOf(plan, rows), plan.place);
}

void listBackward(const LayerPlan& layer, std::int64_t rows, MessageList& list) {
  if (layer.part && layer.part->partial_input_gradient)
    list.sum(PartExchangeKind::sum, rows * layer.inputs(), layer.part->parts);
  if (normsByPlaces(layer)) list.sum(PartExchangeKind::norm, 2 * layer.in[0] + 1, layer.part->parts);
  if (!layer.exchange) return;
  const ExchangePlan& plan = *layer.exchange;
  if (plan.kind == PartStep::halo) return list.halo(plan, rows, false);
  if (plan.kind == PartStep::slice_gather || plan.kind == PartStep::reduce_gather)
    list.gather(chunksOf(plan, rows), plan.place);
  if (plan.kind == PartStep::gather_reduce) list.reduce(chunksOf(plan, rows), plan.place);
}

} // namespace

PartTraffic& PartTraffic::operator+=(const PartTraffic& other) {
  messages += other.messages;
  bytes += other.bytes;
  return *this;
}

std::vector<PartMessage> partMessages(const StagePlan& own, int part, std::int64_t rows,
                                      std::int64_t real_bytes, bool input_gradient, bool own_loss) {
  MessageList list(part, real_bytes);
  listForward(own.layers, rows, list);
  list.endForwardPass();
  if (own.class_parts.divided()) {
    const std::int64_t values = rows * own.positions * ClassParts::statistics;
    list.begin("loss", false);
    list.gather(std::vector<std::int64_t>(own.class_parts.ranges.size(), values), part);
  }
  if (own_loss) {
    listForward(own.head, rows, list);
    listBackward(own.head, rows, true, list);
  }
  listBackward(own.layers, rows, input_gradient, list);
  return list.take();
}

PartTraffic partTraffic(const StagePlan& own, int part, std::int64_t rows, std::int64_t real_bytes,
                        bool input_gradient, bool own_loss) {
  PartTraffic sum;
  for (const PartMessage& message : partMessages(own, part, rows, real_bytes, input_gradient, own_loss)) {
    ++sum.messages;
    sum.bytes += message.bytes;
  }
  return sum;
}

PartTraffic stepTraffic(const RunConfig& config, const Partition& partition, const GridPlan& grid,
                        StepKind kind, std::int64_t real_bytes) {
  const bool joined = kind == StepKind::joined;
  PartTraffic sum;
  for (int part = 0; part < grid.parts && grid.parts > 1; ++part) {
    for (const StagePlan& stage : partition.stages) {
      const StagePlan own = partOfStage(stage, config.strategy, part);
      const bool input_gradient = kind != StepKind::own_losses && !stage.first();
      for (int replica = 0; replica < grid.replicas; ++replica) {
        const std::int64_t share = shareOf(config.training.batch, replica, grid.replicas).size(),
                           count = joined ? microbatchesOf(config.strategy, share) : 1;
        for (std::int64_t i = 0; i < count; ++i)
          sum += partTraffic(own, part, shareOf(share, i, count).size(), real_bytes, input_gradient, !joined);
      }
    }
  }
  return sum;
}

PartTraffic stepTraffic(const RunConfig& config, const Partition& partition, const GridPlan& grid,
                        std::int64_t real_bytes) {
  const bool crosses = planOf(config.strategy).gradientsCross();
  return stepTraffic(config, partition, grid, crosses ? StepKind::joined : StepKind::own_losses, real_bytes);
}

std::vector<std::string> trafficNotes(const RunConfig& config, const Partition& partition,
                                      const GridPlan& grid, std::int64_t real_bytes) {
  std::vector<std::string> lines;
  if (grid.parts == 1) return lines;
  const auto add = [&lines](const PartTraffic& traffic, const std::string& when) {
    lines.push_back("# parts exchange " + std::to_string(traffic.bytes) + " bytes in " +
                    counted(traffic.messages, "message") + " per " + when);
  };
  add(stepTraffic(config, partition, grid, real_bytes), "step");
  for (const auto& [name, kind] : planOf(config.strategy).otherSteps(config.strategy))
    add(stepTraffic(config, partition, grid, kind, real_bytes), name);
  return lines;
}

} // namespace partita
