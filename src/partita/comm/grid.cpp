#include "partita/comm/grid.hpp"

#include <utility>

namespace partita {

Grid::Grid(const Communicator& world, const GridPlan& plan, MessagePaths paths)
    : _plan(plan), _paths(std::move(paths)), _world(world.duplicate()),
      _chain(world.split(plan.replica(world.rank()), plan.group(world.rank()))),
      _backward(_chain.duplicate()), _evaluation(_chain.duplicate()), _control(world.duplicate()),
      _peers(world.split(plan.group(world.rank()), plan.replica(world.rank()))) {}

} // namespace partita
