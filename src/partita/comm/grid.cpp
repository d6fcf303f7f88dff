#include "partita/comm/grid.hpp"

#include "partita/comm/nccl.hpp"

#include <utility>

namespace partita {

namespace {

/// Ranks that differ only in their position on `axis` have the colour of the first of them; each rank without
/// a stage has its own.
Communicator splitAlong(const Communicator& world, const GridPlan& plan, Axis axis) {
  const int rank = world.rank();
  if (!plan.ownsStages(rank)) return world.split(rank, 0);
  const auto place = [&](Axis other) { return other == axis ? 0 : plan.coordinate(rank, other); };
  const int first = plan.rankAt(place(Axis::stage), place(Axis::replica), place(Axis::part));
  return world.split(first, plan.coordinate(rank, axis));
}

} // namespace

Grid::Grid(const Communicator& world, const GridPlan& plan, MessagePaths paths)
    : _plan(plan), _paths(std::move(paths)),
      _world(world.duplicate()), _along{splitAlong(world, plan, Axis::stage),
                                        splitAlong(world, plan, Axis::replica),
                                        splitAlong(world, plan, Axis::part)},
      _family(
          world.split(plan.ownsStages(world.rank()) ? plan.group(world.rank()) : plan.groups + world.rank(),
                      world.rank())),
      _backward(chain().duplicate()), _evaluation(chain().duplicate()) {
  const std::int64_t kind = row_teams ? 1 : 0;
  _family_is_alike = _family.minimum(kind) == _family.maximum(kind);
  // Ranks must add up in the same way, whatever their environments say, and the processor of a host can only
  // read staged values of a device.
  const std::int64_t staged = _paths.reductions == MessagePath::staged ? 1 : 0;
  if (_family.maximum(staged) == 1 || !_family_is_alike) _paths.reductions = MessagePath::staged;
  _paths.nccl = nccl::serves(_family);
}

std::shared_ptr<DeviceSums> Grid::deviceSums(const Communicator& ranks) {
  if (!_paths.nccl || ranks.size() == 1) return nullptr;
  std::shared_ptr<DeviceSums>& sums = _device_sums[&ranks];
  if (sums == nullptr) sums = nccl::join(ranks);
  return sums;
}

} // namespace partita
