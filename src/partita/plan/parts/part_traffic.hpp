#pragma once

#include "partita/plan/grid_plan.hpp"

namespace partita {

/// What parts of a stage exchange: gathered ranges, sums of which each part keeps a range (reduce-scatter),
/// sums for all parts (all-reduce), halos, and sums of statistics.
enum class PartExchangeKind { gather, reduce, sum, halo, norm };

/// A message of one part.
struct PartMessage {
  PartExchangeKind kind = PartExchangeKind::gather;
  std::int64_t bytes = 0;
  std::string place;     ///< of the layer that needs it, "layer3.1"; or "loss"
  bool backward = false; ///< is it sent for gradients?
  /// The layer that computes while the message travels: in the backward pass the gradients of its
  /// parameters (see HiddenExchange), in the forward pass its interior. Null: none. The layer
  /// belongs to the stage for which the messages are listed.
  const LayerPlan* hidden_behind = nullptr;
  bool forward_pass = false; ///< is it sent in the forward pass, and not when that is repeated?
};

/// The messages of one part, in order, in a forward and backward pass over `rows` samples with values of
/// `real_bytes` bytes. `own` is its plan of the stage, see `partOfStage`, and must outlive the list.
/// `input_gradient`: is the gradient of its input computed? `own_loss`: does its head, if it has one, learn?
std::vector<PartMessage> partMessages(const StagePlan& own, int part, std::int64_t rows,
                                      std::int64_t real_bytes, bool input_gradient, bool own_loss = true);

/// What parts send each other during passes; sums of parameter gradients are not counted.
struct PartTraffic {
  std::int64_t messages = 0, bytes = 0;

  PartTraffic& operator+=(const PartTraffic& other);
};

/// The traffic of one part; arguments as in `partMessages`.
PartTraffic partTraffic(const StagePlan& own, int part, std::int64_t rows, std::int64_t real_bytes,
                        bool input_gradient, bool own_loss = true);

/// What stages learn from in a step: their own losses, gradients that cross the cuts, or both.
enum class StepKind { own_losses, joined, both };

/// The traffic of all ranks together, in a step in which every stage learns once.
PartTraffic stepTraffic(const RunConfig& config, const Partition& partition, const GridPlan& grid,
                        StepKind kind, std::int64_t real_bytes);
/// The same for a training step of the deck's strategy.
PartTraffic stepTraffic(const RunConfig& config, const Partition& partition, const GridPlan& grid,
                        std::int64_t real_bytes);

/// What the banner says about it, one line per kind of step; none without parts.
std::vector<std::string> trafficNotes(const RunConfig& config, const Partition& partition,
                                      const GridPlan& grid, std::int64_t real_bytes);

} // namespace partita
