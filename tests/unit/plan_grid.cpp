#include "partita/config/deck.hpp"
#include "partita/plan/grid_plan.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/parts/part_traffic.hpp"

#include <algorithm>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::plan_grid {

namespace {

Partition equalStages(int count) {
  Partition partition;
  partition.stages.resize(static_cast<std::size_t>(count));
  partition.local.assign(static_cast<std::size_t>(count), Effort{1.0, 0.0});
  return partition;
}

StrategySection withReplicas(int replicas) {
  StrategySection strategy;
  strategy.replicas = replicas;
  return strategy;
}

/// Returns whether the ranks can share the stages. `replicas` 0: as many as there is room for.
bool fits(int stages, int ranks, int replicas) {
  if (replicas > 0) return ranks % replicas == 0 && ranks / replicas <= stages;
  return ranks <= stages || ranks % stages == 0;
}

void checkGrid(const GridPlan& grid, int stages, int ranks) {
  CHECK(grid.ranks == ranks);
  CHECK(grid.groups * grid.replicas == ranks);
  std::vector<int> owners(static_cast<std::size_t>(stages * grid.replicas), 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const int group = grid.group(rank);
    const int first = grid.first_stage[static_cast<std::size_t>(group)],
              end = grid.first_stage[static_cast<std::size_t>(group) + 1];
    CHECK(first < end);
    for (int stage = first; stage < end; ++stage) {
      ++owners[static_cast<std::size_t>(grid.replica(rank) * stages + stage)];
      CHECK(grid.groupOf(stage) == group);
    }
    // The next stage of the same replica is on the neighbouring rank.
    if (end < stages) {
      CHECK(grid.groupOf(end) == group + 1);
      CHECK(grid.group(rank + 1) == group + 1);
      CHECK(grid.replica(rank + 1) == grid.replica(rank));
    }
  }
  CHECK(std::all_of(owners.begin(), owners.end(), [](int count) { return count == 1; }));
}

} // namespace

TEST_CASE("Every stage is owned once a replica, neighbours are neighbours", "[plan]") {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (int replicas = 0; replicas <= 8; ++replicas) {
        INFO(stages << " stages, " << ranks << " ranks, " << replicas << " replicas");
        GridPlan grid;
        const std::string message =
            messageOf([&] { grid = planGrid(withReplicas(replicas), equalStages(stages), ranks); });
        CHECK(message.empty() == fits(stages, ranks, replicas));
        if (message.empty()) checkGrid(grid, stages, ranks);
      }
    }
  }
}

TEST_CASE("Ranks have a place on each axis, the stage fastest and the replica slowest", "[plan]") {
  const GridPlan grid = dealStages(equalStages(3), 12, 2, 2);
  int rank = 0;
  for (int replica = 0; replica < 2; ++replica) {
    for (int part = 0; part < 2; ++part) {
      for (int group = 0; group < 3; ++group, ++rank) {
        CHECK(grid.rankAt(group, replica, part) == rank);
        CHECK(grid.group(rank) == group);
        CHECK(grid.replica(rank) == replica);
        CHECK(grid.part(rank) == part);
      }
    }
  }
  CHECK(grid.ownsStages(11));
  CHECK_FALSE(grid.ownsStages(12));
  CHECK(dealStages(equalStages(3), 12, 0, 2).replicas == 2);
}

TEST_CASE("One of the typical parts needs as much memory as any", "[plan]") {
  CHECK(typicalParts({}, 1) == std::vector<int>{0});
  CHECK(typicalParts({}, 4) == std::vector<int>{0, 1, 2, 3});
  CHECK(typicalParts({}, 16) == std::vector<int>{0, 1, 3, 5, 9}); // (1, 1) of 8 x 2, 4 x 4 and 2 x 8 blocks
  for (const char* split : {"grid", "spatial", "filter"}) {
    RunConfig config = parseDeck(
        "[network]\nlayers = [{ type = \"conv2d\", channels = 23, kernel = 5, padding = 2, repeat = 2 }, "
        "{ type = \"dense\", units = 29 }, { type = \"dense\" }]\n[training]\nbatch = 4\n"
        "[strategy]\nkind = \"joint\"\nparts = 11\nsplit = \"" +
            std::string(split) + "\"\n",
        "deck");
    const Partition partition = planPartition(config, planNetwork(config.network, {12, 24, 24}, 11), 11);
    const GridPlan grid = planGrid(config.strategy, partition, 11);
    std::int64_t most = 0;
    for (int part = 0; part < 11; ++part)
      most = std::max(most, partMemory(config, partition, grid, 0, part).total());
    INFO(split);
    CHECK(stageMemory(config, partition, grid, 0).total() == most);
  }
}

namespace {

/// Do the typical parts of a grid of blocks include those with the most memory, messages and bytes?
void checkBlocks(const std::string& layers, const Shape& in, const std::string& grid_of_parts, int parts,
                 const std::vector<int>& chosen) {
  const RunConfig config =
      parseDeck("[network]\nlayers = [" + layers + "]\n[training]\nbatch = 4\n" +
                    "[strategy]\nkind = \"joint\"\nsplit = \"spatial\"\nparts = " + std::to_string(parts) +
                    "\nparts_grid = " + grid_of_parts + "\n",
                "deck");
  const Partition partition = planPartition(config, planNetwork(config.network, in, 11), 11);
  const GridPlan grid = planGrid(config.strategy, partition, parts);
  INFO(grid_of_parts);
  CHECK(typicalParts(partition.stages[0], parts) == chosen);
  const auto traffic = [&](int part) {
    return partTraffic(partOfStage(partition.stages[0], config.strategy, part), part, 4, 4, false);
  };
  std::int64_t memory = 0;
  PartTraffic most, typical;
  for (int part = 0; part < parts; ++part) {
    memory = std::max(memory, partMemory(config, partition, grid, 0, part).total());
    most.messages = std::max(most.messages, traffic(part).messages);
    most.bytes = std::max(most.bytes, traffic(part).bytes);
  }
  for (const int part : chosen) {
    typical.messages = std::max(typical.messages, traffic(part).messages);
    typical.bytes = std::max(typical.bytes, traffic(part).bytes);
  }
  CHECK(stageMemory(config, partition, grid, 0).total() == memory);
  CHECK(typical.messages == most.messages);
  CHECK(typical.bytes == most.bytes);
}

} // namespace

TEST_CASE("One of the typical blocks needs as much as any", "[plan][parts]") {
  const std::string conv2d = "{ type = \"conv2d\", channels = 3, kernel = 3, padding = 1 }, ",
                    conv3d = "{ type = \"conv3d\", channels = 3, kernel = 3, padding = 1, repeat = 2 }, ",
                    pool = "{ type = \"max-pool\" }, ", dense = "{ type = \"dense\" }";
  checkBlocks(conv3d + dense, {2, 10, 11, 9}, "[3, 3, 3]", 27, {0, 1, 3, 4, 9, 10, 12, 13});
  checkBlocks(conv2d + dense, {2, 32, 32}, "[4, 2]", 8, {0, 1, 2, 3});
  // 28 rows are 4 4 4 4 3 3 3 3, and the 14 after pooling 2 2 2 2 2 2 1 1.
  checkBlocks(conv2d + pool + conv2d + dense, {2, 28, 32}, "[8, 1]", 8, {0, 3, 5});
}

TEST_CASE("Ranks that do not fit are refused with the numbers that do", "[plan]") {
  const auto message = [](int ranks, int stages, int replicas, int parts) {
    return messageOf([&] { dealStages(equalStages(stages), ranks, replicas, parts); });
  };
  CHECK(message(9, 2, 2, 2) ==
        "9 ranks do not fit 2 stages x 2 replicas x 2 parts; start a multiple of 4 ranks, at most 8");
  CHECK(message(3, 2, 0, 1) == "3 ranks do not fit 2 stages; start at most 2 ranks, or a multiple of 2");
  CHECK(message(3, 2, 0, 2) ==
        "3 ranks do not fit 2 stages x 2 parts; start a multiple of 2 ranks, at most 4, or a multiple of 4");
  CHECK(message(3, 1, 0, 2) == "3 ranks do not fit 1 stage x 2 parts; start a multiple of 2 ranks");
  CHECK(message(1, 1, 4, 1) == "1 rank does not fit 1 stage x 4 replicas; start 4 ranks");
  CHECK(
      message(4, 2, 65536, 65536) ==
      "4 ranks do not fit 2 stages x 65536 replicas x 65536 parts; start a multiple of 4294967296 ranks, at "
      "most 8589934592");
  CHECK(message(3, 2, 1, 1) == "3 ranks do not fit 2 stages x 1 replica; start at most 2 ranks");
}

TEST_CASE("Fewer ranks than stages share them out by their work", "[plan]") {
  Partition partition = equalStages(4);
  partition.local = {{1.0}, {1.0}, {1.0}, {3.0}};
  CHECK(planGrid(withReplicas(0), partition, 2).first_stage == std::vector<int>{0, 3, 4});
  partition.local = {{3.0}, {1.0}, {1.0}, {1.0}};
  CHECK(planGrid(withReplicas(0), partition, 2).first_stage == std::vector<int>{0, 1, 4});
}

} // namespace partita::test::plan_grid
