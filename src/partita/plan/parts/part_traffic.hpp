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
};

/// The messages of one part, in their order, in a forward and backward pass over `rows` samples with values
/// of `real_bytes` bytes. `own` is its plan of the stage, see `partOfStage`; `input_gradient`: is the
/// gradient of its input computed?
std::vector<PartMessage> partMessages(const StagePlan& own, int part, std::int64_t rows,
                                      std::int64_t real_bytes, bool input_gradient);

/// What parts of stages send each other in the middle of passes; sums of gradients are not counted.
struct PartTraffic {
  std::int64_t messages = 0, bytes = 0;

  PartTraffic& operator+=(const PartTraffic& other);
};

/// Of one part, as in `partMessages`.
PartTraffic partTraffic(const StagePlan& own, int part, std::int64_t rows, std::int64_t real_bytes,
                        bool input_gradient);

/// Of all ranks together, in a training step of `joint` or `pipeline`.
PartTraffic stepTraffic(const RunConfig& config, const Partition& partition, const GridPlan& grid,
                        std::int64_t real_bytes = sizeof(float));

} // namespace partita
