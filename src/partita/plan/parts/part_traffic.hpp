#pragma once

#include "partita/plan/grid_plan.hpp"

namespace partita {

/// What parts of a stage exchange: gathered ranges, sums of which each keeps a range, sums that all get,
/// places at borders, and sums of statistics.
enum class PartExchangeKind { gather, reduce, sum, halo, norm };

/// A message of one part.
struct PartMessage {
  PartExchangeKind kind = PartExchangeKind::gather;
  std::int64_t bytes = 0;
  std::string place;     ///< of the layer that needs it, "layer3.1"; or "loss"
  bool backward = false; ///< is it sent for gradients?
  /// The layer that computes while the message travels: the gradients of its parameters, see
  /// `hiddenExchange`, or in the forward pass its interior. Null: none. It is part of the stage whose
  /// messages these are.
  const LayerPlan* hidden_behind = nullptr;
};

/// The messages of one part, in their order, in a forward and backward pass over `rows` samples with values
/// of `real_bytes` bytes. `own` is its plan of the stage, see `partOfStage`, and must outlive the list;
/// `input_gradient`: is the
/// gradient of its input computed? `own_loss`: does its head, if it has one, learn?
std::vector<PartMessage> partMessages(const StagePlan& own, int part, std::int64_t rows,
                                      std::int64_t real_bytes, bool input_gradient, bool own_loss = true);

/// Those of them that are sent in the forward pass.
std::vector<PartMessage> forwardMessages(const StagePlan& own, int part, std::int64_t rows,
                                         std::int64_t real_bytes);

/// What parts of stages send each other in the middle of passes; sums of gradients are not counted.
struct PartTraffic {
  std::int64_t messages = 0, bytes = 0;

  PartTraffic& operator+=(const PartTraffic& other);
};

/// Of one part, as in `partMessages`.
PartTraffic partTraffic(const StagePlan& own, int part, std::int64_t rows, std::int64_t real_bytes,
                        bool input_gradient, bool own_loss = true);

/// What stages learn from in a step: their own losses, gradients that cross the cuts, or both.
enum class StepKind { own_losses, joined, both };

/// Of all ranks together, in a step in which every stage learns once.
PartTraffic stepTraffic(const RunConfig& config, const Partition& partition, const GridPlan& grid,
                        StepKind kind, std::int64_t real_bytes = sizeof(float));
/// In a step of the training, by the strategy of the deck.
PartTraffic stepTraffic(const RunConfig& config, const Partition& partition, const GridPlan& grid,
                        std::int64_t real_bytes = sizeof(float));

/// What the banner says about it, one line per kind of step; none without parts.
std::vector<std::string> trafficNotes(const RunConfig& config, const Partition& partition,
                                      const GridPlan& grid);

} // namespace partita
