#include "partita/config/deck.hpp"
#include "partita/plan/memory_between_cuts.hpp"
#include "partita/plan/network_plan.hpp"

#include <algorithm>

#include "support/catch.hpp"

namespace partita::test::plan_memory_between_cuts {

namespace {

/// Activations that may be moved over the layers after them, and groups that they may not be moved out of.
RunConfig mixedNetwork(const std::string& strategy) {
  return parseDeck(
      "[data]\nkind = \"glyphs\"\n[network]\nlayers = [\n"
      "{ type = \"conv2d\", channels = 6, kernel = 3, activation = \"relu\" },\n"
      "{ type = \"batch-norm\" },\n"
      "{ type = \"residual\", activation = \"silu\", layers = [{ type = \"conv2d\", channels = 6, "
      "kernel = 3, padding = 1 }] },\n"
      "{ type = \"max-pool\", kernel = 2 },\n"
      "{ type = \"block\", recompute = true, layers = [{ type = \"dense\", units = 90, activation = \"tanh\" "
      "}, "
      "{ type = \"dropout\", rate = 0.1 }] },\n"
      "{ type = \"dropout\", rate = 0.1 },\n"
      "{ type = \"dense\", units = 30, activation = \"gelu\" },\n"
      "{ type = \"dense\" },\n]\n[strategy]\ncuts = \"memory\"\n" +
          strategy,
      "deck.toml");
}

/// Compares all stages that cuts into four make possible. Without gradients between them, the two inner ones
/// need the same for the same layers.
void checkAllRanges(const RunConfig& config) {
  constexpr int stages = 4, replicas = 2;
  constexpr std::int64_t real_bytes = 8;
  const std::vector<LayerPlan> layers = planNetwork(config.network, {1, 12, 12}, 10);
  const auto count = static_cast<std::int64_t>(layers.size());
  const StageMaker maker(config, layers);
  const MemoryBetweenCuts memory(config, layers, stages, replicas, {real_bytes});
  for (int index = 0; index < stages; ++index) {
    const bool ends = index + 1 == stages;
    for (std::int64_t first = index > 0 ? 1 : 0; first < (index > 0 ? count : 1); ++first) {
      for (std::int64_t last = ends ? count : first + 1; last < (ends ? count + 1 : count); ++last) {
        INFO(index << ": " << first << " to " << last);
        const StagePlan stage = maker.stage(first, last, index, stages);
        const std::int64_t whole =
            stageMemory(stage, config, {index, stages, replicas}, {real_bytes}).total();
        CHECK(memory.of(first, last, index) == whole);
        CHECK(memory.of(first, last, index) == whole); // now it is known
      }
    }
  }
}

} // namespace

TEST_CASE("The memory between cuts is that of whole stages", "[plan]") {
  for (const std::string strategy :
       {"kind = \"pipeline\"\nmicrobatches = 4\nschedule = \"1f1b\"", "kind = \"sil\"",
        "kind = \"sil\"\nlabels = \"uniform\"\nrecovery_epochs = 1",
        "kind = \"sil\"\ninput = \"frozen\"\nhead_depth = 1", "kind = \"sil\"\ninput = \"free\"",
        "kind = \"sil\"\ninput = \"relay\"\nreconstruct = 0.5"}) {
    for (const Precision precision : {Precision::single, Precision::fp16}) {
      INFO(strategy << " " << static_cast<int>(precision));
      RunConfig config = mixedNetwork(strategy);
      config.run.precision = precision;
      checkAllRanges(config);
    }
  }
}

TEST_CASE("Each stage of a pipeline has its own number of microbatches on tapes", "[plan]") {
  const RunConfig config = mixedNetwork("kind = \"pipeline\"\nmicrobatches = 4\nschedule = \"1f1b\"");
  const std::vector<LayerPlan> layers = planNetwork(config.network, {1, 12, 12}, 10);
  const MemoryBetweenCuts memory(config, layers, 4, 1, {});
  CHECK(memory.of(2, 4, 1) > memory.of(2, 4, 2));
  const std::vector<std::int64_t> cuts{2, 4, 7};
  CHECK(memory.mostAt(0, cuts) == static_cast<double>(std::max(memory.of(0, 2, 0), memory.of(2, 4, 1))));
  CHECK(memory.mostAt(2, cuts) == static_cast<double>(std::max(memory.of(4, 7, 2), memory.of(7, 8, 3))));
}

} // namespace partita::test::plan_memory_between_cuts
