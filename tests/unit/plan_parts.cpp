#include "partita/config/deck.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/layer_rules.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/partition.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/parts/part_traffic.hpp"
#include "partita/plan/window_plan.hpp"

#include <numeric>

#include "support/catch.hpp"

namespace partita::test::plan_parts {

/// What parts of a stage have, and what they send, for networks whose layers can be counted by hand.

namespace {

const std::string images = "{type='conv2d',channels=8,kernel=3,padding=1,activation='relu'},"
                           "{type='conv2d',channels=12,kernel=3,padding=1},{type='batch-norm'},"
                           "{type='max-pool',kernel=2},{type='flatten'},{type='dense',units=10}",
                  tokens =
                      "{type='embedding',width=12},{type='residual',layers=[{type='layer-norm'},"
                      "{type='dense',units=48,activation='gelu'},{type='dense',units=12}]},{type='dense'}";

struct Divided {
  Divided(const std::string& layers, const std::string& split, int parts, int stages = 1)
      : config(parseDeck(
            "[data]\nclasses = 10\n", "deck",
            {"network/layers=[" + layers + "]", "strategy/kind=pipeline", "strategy/schedule=1f1b",
             "strategy/stages=" + std::to_string(stages), "strategy/parts=" + std::to_string(parts),
             "strategy/split=" + split,
             layers.find("embedding") == std::string::npos ? "data/kind=glyphs" : "data/kind=grammar"})),
        partition(planPartition(
            config,
            planNetwork(config.network,
                        layers.find("embedding") == std::string::npos ? Shape{1, 8, 8} : Shape{6}, 10),
            10)) {}

  StagePlan part(int number, int stage = 0) const {
    return partOfStage(partition.stages[static_cast<std::size_t>(stage)], config.strategy, number);
  }

  RunConfig config;
  Partition partition;
};

std::vector<std::string> typesOf(const StagePlan& stage) {
  std::vector<std::string> types;
  for (const LayerPlan* leaf : leavesOf(stage.layers)) types.push_back(leaf->spec.type);
  return types;
}

/// How often each value of each tensor is owned, over all parts: once.
void checkOwners(const Divided& divided, int parts) {
  for (const StagePlan& stage : divided.partition.stages) {
    for (const StageTensor& tensor : parameterTensors(stage.layers)) {
      std::vector<int> owners(static_cast<std::size_t>(tensor.size), 0);
      for (int part = 0; part < parts; ++part) {
        for (const StageTensor& own : parameterTensors(divided.part(part, stage.index).layers)) {
          if (own.layer != tensor.layer || own.name != tensor.name || !own.owned) continue;
          std::int64_t size = 0;
          for (const TensorSlice& slice : own.slices) {
            CHECK(slice.whole == tensor.extents);
            size += slice.size();
            for (const SliceRun& run : runsOf(slice))
              for (std::int64_t i = 0; i < run.count; ++i)
                ++owners[static_cast<std::size_t>(run.in_whole + i)];
          }
          CHECK(size == own.size);
        }
      }
      INFO(tensor.layer << " " << tensor.name);
      CHECK(owners == std::vector<int>(owners.size(), 1));
    }
  }
}

std::string refusal(const std::string& layers, const std::string& split, int parts) {
  try {
    Divided(layers, split, parts);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST_CASE("Ranges of an axis are as even as possible", "[plan][parts]") {
  CHECK(rangeOf(7, 3, 0).size() == 3);
  CHECK(rangeOf(7, 3, 1).begin == 3);
  CHECK(rangeOf(7, 3, 2).end == 7);
  CHECK_THROWS_AS(rangeOf(2, 3, 0), std::logic_error);
}

TEST_CASE("Each value of each tensor has one owner", "[plan][parts]") {
  for (const char* split : {"filter", "channel", "grid", "spatial"}) {
    for (const int parts : {2, 3, 4, 6}) {
      for (const int stages : {1, 2}) {
        INFO(split << ", " << parts << " parts, " << stages << " stages");
        checkOwners(Divided(images, split, parts, stages), parts);
        if (split != std::string("spatial")) checkOwners(Divided(tokens, split, parts, stages), parts);
      }
    }
  }
}

TEST_CASE("Exchanges stand between the layers of a part", "[plan][parts]") {
  using Types = std::vector<std::string>;
  CHECK(typesOf(Divided(images, "filter", 2).part(0)) == Types{"conv2d", "gather", "conv2d", "gather",
                                                               "batch-norm", "max-pool", "flatten", "dense",
                                                               "gather"});
  CHECK(typesOf(Divided(images, "channel", 2).part(0)) ==
        Types{"conv2d", "slice", "conv2d", "batch-norm", "max-pool", "flatten", "slice", "dense"});
  // The embedding is the first layer with parameters, wherever the network is cut.
  const std::string words =
      "{type='embedding',width=4,positions=true},{type='flatten'},{type='dense',units=8},"
      "{type='dense'}";
  CHECK(typesOf(Divided(words, "channel", 2).part(0)) ==
        Types{"embedding", "flatten", "slice", "dense", "slice", "dense"});
  CHECK(typesOf(Divided(words, "channel", 2, 2).part(0, 1)) ==
        Types{"flatten", "slice", "dense", "slice", "dense"});
  // 8 channels in, 12 out: gathering the inputs moves less than adding up the outputs.
  CHECK(typesOf(Divided(images, "grid", 2).part(0)) ==
        Types{"conv2d", "gather", "conv2d", "batch-norm", "max-pool", "flatten", "dense"});
  CHECK(typesOf(Divided(images, "grid", 6).part(0)) ==
        Types{"conv2d", "gather", "conv2d", "reduce", "batch-norm", "max-pool", "flatten", "dense"});
  CHECK(typesOf(Divided(images, "spatial", 2).part(1)) == Types{"slice", "halo", "conv2d", "halo", "conv2d",
                                                                "batch-norm", "max-pool", "gather", "flatten",
                                                                "dense"});
  // The first of two dense layers is divided by output, the second by input. Logits remain divided.
  CHECK(typesOf(Divided(tokens, "grid", 4).part(0)) ==
        Types{"embedding", "reduce", "layer-norm", "gather", "dense", "dense", "reduce", "gather", "dense"});
}

TEST_CASE("The traffic of parts follows the equations of ring algorithms", "[plan][parts]") {
  constexpr std::int64_t rows = 5, y1 = 8 * 64, y2 = 12 * 64, flat = 12 * 16, classes = 10, bytes = 4;
  const auto sent = [](const Divided& divided, int parts) {
    PartTraffic sum;
    for (int part = 0; part < parts; ++part) sum += partTraffic(divided.part(part), part, rows, bytes, false);
    return sum;
  };
  for (const int parts : {2, 4}) {
    const std::int64_t others = parts - 1;
    // Filter: each output is gathered, and the gradient of each input but the first is added up.
    PartTraffic traffic = sent(Divided(images, "filter", parts), parts);
    CHECK(traffic.bytes == others * rows * bytes * (y1 + y2 + classes + 2 * (y1 + flat)));
    CHECK(traffic.messages == parts * others * (3 + 2 * 2));
    // Channel: each output but the first is added up, and the gradient of each input is gathered.
    traffic = sent(Divided(images, "channel", parts), parts);
    CHECK(traffic.bytes == others * rows * bytes * (2 * (y2 + classes) + y1 + flat));
    CHECK(traffic.messages == parts * others * (2 * 2 + 2));
  }
  // Grid of 2: the input of the second convolution is gathered, its gradient added up in place; then logits.
  const PartTraffic traffic = sent(Divided(images, "grid", 2), 2);
  CHECK(traffic.bytes == rows * bytes * (2 * y1 + 2 * classes));
  // Spatial of 2: one row each way per 3x3 convolution, back again except from the first, sums of the norm,
  // and the activations before the first dense layer.
  const PartTraffic places = sent(Divided(images, "spatial", 2), 2);
  const std::int64_t norms = 2 * (12 + 13 + 25);
  CHECK(places.bytes == bytes * (rows * (2 * 8 + 2 * 2 * 8 * 8 + flat) + norms));
}

/// The layers behind which the messages of part 0 are hidden, by their index; -1: none.
std::vector<std::ptrdiff_t> hidingLayers(const StagePlan& own) {
  std::vector<std::ptrdiff_t> found;
  for (const PartMessage& message : partMessages(own, 0, 5, 4, false))
    found.push_back(message.hidden_behind == nullptr ? -1 : message.hidden_behind - own.layers.data());
  return found;
}

TEST_CASE("The first messages of gradients are hidden behind the layer that sends them", "[plan][parts]") {
  using Layers = std::vector<std::ptrdiff_t>;
  // Of each input gradient that three parts add up, one of two messages to add and two to gather.
  CHECK(hidingLayers(Divided(images, "filter", 3).part(0)) ==
        Layers{-1, -1, -1, -1, -1, -1, 7, -1, -1, -1, 2, -1, -1, -1});
  // Outputs are added up in the forward pass, and the gradients of inputs gathered in the backward pass.
  CHECK(hidingLayers(Divided(images, "channel", 2).part(0)) == Layers{-1, -1, -1, -1, 7, 2});
  // Heads, units and logits: the gradients of their inputs are added up, and positions remain.
  const Divided grid(tokens, "grid", 2);
  const StagePlan own = grid.part(0);
  std::int64_t hidden = 0;
  for (const PartMessage& message : partMessages(own, 0, 5, 4, false)) {
    if (message.hidden_behind == nullptr) continue;
    CHECK(message.backward);
    CHECK(message.kind == PartExchangeKind::reduce);
    CHECK(message.hidden_behind->rules().work() == LayerWork::product);
    ++hidden;
  }
  CHECK(hidden == 2); // a pair of dense layers, and the logits
}

TEST_CASE("A part computes its interior while halos travel, if that is most of its block", "[plan][parts]") {
  const auto interior = [](const std::string& layers, int parts, int part) {
    const StagePlan own = Divided(layers, "spatial", parts).part(part);
    for (const LayerPlan& layer : own.layers)
      if (layer.spec.type == "conv2d" || layer.spec.type == "max-pool") return layer.part->interior;
    return Block{};
  };
  CHECK(interior(images, 2, 0) ==
        Block{{IndexRange{0, 1}, {0, 3}, {0, 8}}}); // its last row sees the other part
  CHECK(interior(images, 2, 1) == Block{{IndexRange{0, 1}, {1, 4}, {0, 8}}});
  CHECK(interior(images, 4, 0) == Block{}); // 9 of 16 places
  const std::string strides =
      "{type='conv2d',channels=4,kernel=3,stride=2,padding=1},{type='dense',units=10}";
  CHECK(interior(strides, 2, 0) == Block{{IndexRange{0, 1}, {0, 2}, {0, 4}}}); // sees only own places
  CHECK(interior(strides, 2, 1) == Block{});                                   // one of two rows
  CHECK(interior("{type='conv2d',channels=4,kernel=1,padding=2},{type='dense',units=10}", 2, 0) == Block{});
  const std::string pool = "{type='max-pool',kernel=3,stride=1,padding=1},{type='conv2d',channels=4,kernel=1}"
                           ",{type='dense',units=10}";
  CHECK(interior(pool, 2, 0) == Block{{IndexRange{0, 1}, {0, 3}, {0, 8}}});
  const std::string tiles =
      "{type='max-pool',kernel=2},{type='conv2d',channels=4,kernel=1},{type='dense',units=10}";
  CHECK(interior(tiles, 2, 0) == Block{}); // sees no halo
  // Halos of both convolutions forward, sums of the norm, places before the dense layer; back, its sums, and
  // the halo of the second convolution.
  const StagePlan own = Divided(images, "spatial", 2).part(0);
  std::vector<std::ptrdiff_t> forward, backward;
  for (const PartMessage& message : partMessages(own, 0, 5, 4, false))
    if (message.kind == PartExchangeKind::halo)
      (message.backward ? backward : forward).push_back(message.hidden_behind - own.layers.data());
  CHECK(forward == std::vector<std::ptrdiff_t>{2, 4});
  CHECK(backward == std::vector<std::ptrdiff_t>{4});
}

TEST_CASE("Blocks around an interior are the rest", "[plan][parts]") {
  constexpr std::int64_t extents[3] = {4, 5, 6};
  const Block interior{{IndexRange{1, 3}, {0, 4}, {2, 5}}};
  std::vector<int> covered(4 * 5 * 6, 0);
  std::vector<Block> blocks = aroundInterior(interior, extents);
  CHECK(blocks.size() == 5);
  blocks.push_back(interior);
  for (const Block& block : blocks)
    for (std::int64_t z = block.axes[0].begin; z < block.axes[0].end; ++z)
      for (std::int64_t y = block.axes[1].begin; y < block.axes[1].end; ++y)
        for (std::int64_t x = block.axes[2].begin; x < block.axes[2].end; ++x)
          ++covered[static_cast<std::size_t>((z * 5 + y) * 6 + x)];
  CHECK(covered == std::vector<int>(4 * 5 * 6, 1));
}

TEST_CASE("Halos of blocks are faces, edges and corners", "[plan][parts]") {
  const std::string one = "{type='conv2d',channels=4,kernel=3,padding=1},{type='dense',units=10}";
  // 8 x 8 places in 2 x 2 blocks: each part gets two faces of 4 places and one corner.
  const Divided blocks(one, "spatial", 4);
  CHECK(blocks.partition.stages[0].place_grid == PlaceGrid{1, 2, 2});
  for (int part = 0; part < 4; ++part) {
    const LayerPlan halo = blocks.part(part).layers[1];
    REQUIRE(halo.exchange);
    CHECK(halo.out == Shape{1, 5, 5});
    std::int64_t got = 0;
    for (int other = 0; other < 4; ++other)
      if (other != part) got += halo.exchange->sent(other, part).places();
    CHECK(got == 2 * 4 + 1);
    CHECK(halo.exchange->sent(3 - part, part).places() == 1);
    CHECK(blocks.part(part).layers[2].out == Shape{4, 4, 4});
  }
  // Two slabs: the first axis if both are alike, otherwise the one whose windows see less of the other part.
  CHECK(Divided(one, "spatial", 2).partition.stages[0].place_grid == PlaceGrid{1, 2, 1});
  CHECK(Divided("{type='conv2d',channels=4,kernel=[3,1]},{type='dense',units=10}", "spatial", 2)
            .partition.stages[0]
            .place_grid == PlaceGrid{1, 1, 2});
  // Five parts fit along one axis only.
  CHECK(Divided(one, "spatial", 5).partition.stages[0].place_grid == PlaceGrid{1, 5, 1});
  // Uneven: 8 = 3 + 3 + 2; a window of 4 with a stride of 2 and a dilation of 2 sees 7 places.
  const Divided uneven(
      "{type='conv2d',channels=4,kernel=4,stride=2,dilation=2,padding=3},{type='dense',units=10}", "spatial",
      3);
  const LayerPlan seen = uneven.part(1).layers[1];
  CHECK(seen.exchange->owned[1].axes[1] == IndexRange{3, 6});
  CHECK(seen.exchange->needed[1].axes[1] == IndexRange{1, 8});
}

TEST_CASE("Weights are divided in the grid of the deck", "[plan][parts]") {
  const auto middle = [](const std::string& grid) {
    Divided divided(images, "grid", 4);
    divided.config.strategy.parts_grid = {{grid[0] - '0', grid[1] - '0'}};
    for (const LayerPlan& layer : divided.part(0).layers)
      if (layer.spec.type == "conv2d" && layer.index == 1) return layer.parameterShapes().front().extents;
    return std::vector<std::int64_t>{};
  };
  CHECK(middle("14") == std::vector<std::int64_t>{3, 8, 3, 3});
  CHECK(middle("22") == std::vector<std::int64_t>{6, 4, 3, 3});
  CHECK(middle("41") == std::vector<std::int64_t>{12, 2, 3, 3});
}

TEST_CASE("Only places of images and volumes are shared", "[plan][parts]") {
  CHECK(placesDivisible({3, 4, 4}, {{1, 2, 2}}));
  CHECK_FALSE(placesDivisible({3, 4, 1}, {{1, 2, 2}}));
  CHECK(placesDivisible({3, 2, 4, 4}, {{2, 2, 2}}));
  for (const Shape& shape : {Shape{8}, Shape{8, 4}, Shape{3, 2, 2, 4, 4}})
    CHECK_FALSE(placesDivisible(shape, {{1, 1, 2}}));
}

TEST_CASE("Parts that do not fit are refused with the limit", "[plan][parts]") {
  CHECK(refusal(images, "filter", 11) ==
        "strategy/parts: 11 parts cannot share the 8 output channels of network/layers[0] (conv2d)");
  CHECK(refusal(images, "channel", 9) ==
        "strategy/parts: 9 parts cannot share the 8 input channels of network/layers[1] (conv2d)");
  CHECK(refusal(images, "grid", 9) ==
        "strategy/parts: 9 parts cannot share the 8 output channels of network/layers[0] (conv2d)");
  CHECK(refusal(images, "spatial", 9).empty()); // in blocks of 3 x 3
  CHECK(refusal(images, "spatial", 11) ==
        "strategy/parts: no layer of the network can be shared by 11 parts with split 'spatial'");
  CHECK(refusal(tokens, "spatial", 2) ==
        "strategy/parts: no layer of the network can be shared by 2 parts with split 'spatial'");
  CHECK(refusal(images, "filter", 8).empty());
}

} // namespace partita::test::plan_parts
