#include "partita/strategy/replica_link.hpp"

#include "partita/comm/gradient_reducer.hpp"
#include "partita/data/order.hpp"
#include "partita/plan/parts/part_of_stage.hpp"

namespace partita {

namespace {

/// The parameters of layers that every part computes as a whole, as ranges of the flat buffer.
std::vector<std::pair<std::int64_t, std::int64_t>> wholeLayers(const StagePlan& plan) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  const std::vector<LayerPlan> layers = plan.allLayers();
  std::int64_t begin = 0;
  for (const LayerPlan* leaf : leavesOf(layers)) {
    const std::int64_t end = begin + leaf->storedValues();
    if (end > begin && !(leaf->part && leaf->part->by_places)) ranges.emplace_back(begin, end);
    begin = end;
  }
  return ranges;
}

} // namespace

ReplicaLink summedGradients(const RunConfig& config, const LocalStage& local, Grid& grid) {
  const Precision sums = grid.paths().sums;
  const bool by_places = dividesPlaces(config.strategy);
  const Communicator& peers = by_places ? grid.family() : grid.peers();
  auto reducer = std::make_unique<GradientReducer>(
      peers, local.stage.trained().gradients, config.strategy.bucket_kib * 1024 / bytesOf(sums),
      grid.paths().reductions, grid.traffic.between_replicas, sums, grid.deviceSums(peers));
  if (by_places && grid.part() > 0) reducer->leaveOut(wholeLayers(local.stage.plan()));
  return {std::move(reducer), peers, config.training.batch, grid.familyIsAlike()};
}

ReplicaLink ownGradients(const RunConfig& config, const Grid& grid) {
  const IndexRange share = shareOf(config.training.batch, grid.replica(), grid.replicas());
  return {std::make_unique<LocalGradient>(), grid.peers(), share.size()};
}

} // namespace partita
