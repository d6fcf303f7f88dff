#include "partita/config/deck.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/partition.hpp"
#include "partita/plan/strategies/sil.hpp"

#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/small_model.hpp"

namespace partita::test::plan_heads {

namespace {

const std::string images = R"(layers = [
  { type = "conv2d", channels = 16, kernel = 3, padding = 1, activation = "relu" },
  { type = "conv2d", channels = 8, kernel = 3, stride = 2, activation = "relu" },
  { type = "dense", units = 20, activation = "relu" },
  { type = "dense" },
])";

RunConfig deckOf(const std::string& strategy, const std::string& layers = images) {
  return parseDeck("[network]\n" + layers + "\n[strategy]\nkind = \"sil\"\n" + strategy, "deck.toml");
}

Partition cut(const RunConfig& config, const Shape& input = {3, 20, 24}) {
  return planPartition(config, planNetwork(config.network, input, 10), 10);
}

} // namespace

TEST_CASE("Each stage but the last has a head that ends with the learned labels", "[plan]") {
  const Partition partition = cut(deckOf("stages = 3\ncuts = [1, 3]"));
  const StagePlan& first = partition.stages[0];
  REQUIRE(first.head.size() == 2); // 16 x 20 x 24 values are too many
  CHECK(first.head[0].name() == "head0.0.average-pool");
  CHECK(first.head[0].out == Shape{16, 10, 12});
  CHECK(first.head[1].name() == "head0.1.dense");
  CHECK(first.labelWidth() == 16 * 10 * 12);
  const StagePlan& second = partition.stages[1];
  REQUIRE(second.head.size() == 1);
  CHECK(second.head[0].name() == "head2.0.dense");
  CHECK(second.labelWidth() == 20);
  CHECK(partition.stages[2].head.empty());

  CHECK(second.storedValues() == storedSize(8 * 16 * 9) + storedSize(8) + storedSize(20 * 8 * 9 * 11) +
                                     storedSize(20) + storedSize(200));
  const LayerPlan& pooled = first.head[1];
  CHECK(partition.local_flops[0] == first.trainFlops(false) + 3 * pooled.forwardFlops());
}

TEST_CASE("Windows of a pool before the labels", "[plan]") {
  const auto widthAt = [](const std::string& pool) {
    return cut(deckOf("stages = 2\ncuts = [1]\nlabel_pool = " + pool)).stages[0].labelWidth();
  };
  CHECK(widthAt("0") == 16 * 10 * 12);
  CHECK(widthAt("1") == 16 * 20 * 24);
  CHECK(widthAt("5") == 16 * 4 * 4); // what does not fill a window is left out
  CHECK_THROWS_WITH(widthAt("21"), Catch::Contains("strategy/head: entry 1"));
}

TEST_CASE("Heads of layers begin after the cut and keep their places", "[plan]") {
  const Partition partition = cut(deckOf("stages = 2\ncuts = [2]\nhead = [{type = \"conv2d\", channels = 4, "
                                         "kernel = 3}, {type = \"global-average-pool\"}]"));
  const std::vector<LayerPlan>& head = partition.stages[0].head;
  REQUIRE(head.size() == 3);
  CHECK(head[0].in == partition.stages[0].layers.back().out);
  CHECK(head[2].in == Shape{4});
  CHECK(head[2].out == Shape{10});
  CHECK(head[0].number > 1000);
  CHECK_THROWS_WITH(
      cut(deckOf("stages = 2\ncuts = [3]\nhead = [{type = \"conv2d\", channels = 4, kernel = 3}]")),
      Catch::Contains("strategy/head: entry 1: conv2d needs channels x rows x columns"));
}

TEST_CASE("The labels of tokens are one matrix for all positions", "[plan]") {
  const std::string tokens = R"(layers = [
  { type = "embedding", width = 8 }, { type = "residual", layers = [{ type = "dense", units = 8 }] }, { type = "dense" },
]
[data]
kind = "grammar")";
  const Partition partition = cut(deckOf("stages = 2\ncuts = [2]", tokens), {5});
  const LayerPlan& labels = partition.stages[0].head.back();
  CHECK(labels.parameters() == 10 * 8);
  CHECK(labels.out == Shape{5, 10});
  CHECK(partition.stages[0].labelWidth() == 8);
  CHECK_THROWS_WITH(cut(deckOf("stages = 2\ncuts = [2]\nhead = [{type = \"flatten\"}]", tokens), {5}),
                    Catch::Contains("strategy/head: the layers must keep the 5 positions of a sequence"));
}

TEST_CASE("Labels learn unless the deck says otherwise or they cannot", "[plan]") {
  const auto learns = [](const std::string& strategy) { return learnsLabels(deckOf(strategy).strategy.sil); };
  CHECK(learns(""));
  CHECK(learns("input = \"frozen\""));
  CHECK_FALSE(learns("input = \"free\""));
  CHECK_FALSE(learns("loss = \"mse\""));
  CHECK_FALSE(learns("labels = \"orthogonal\""));
  CHECK_FALSE(learns("reencode = \"on\""));
  SilSection sil;
  CHECK(labelKind(sil, 10, 10) == LabelKind::orthogonal);
  CHECK(labelKind(sil, 9, 10) == LabelKind::gaussian);
  sil.label_init = LabelKind::sign;
  CHECK(labelKind(sil, 9, 10) == LabelKind::sign);
  sil.labels = LabelKind::etf;
  CHECK(labelKind(sil, 20, 10) == LabelKind::etf);
}

TEST_CASE("A stage whose labels learn keeps its activation", "[plan]") {
  const Partition learned = cut(deckOf("stages = 2\ncuts = [3]"));
  CHECK(learned.stages[0].layers.back().spec.activation == Activation::relu);
  CHECK_FALSE(learned.stages[1].entrance);
  const Partition fixed = cut(deckOf("stages = 2\ncuts = [3]\nlabels = \"orthogonal\""));
  CHECK(fixed.stages[0].layers.back().spec.activation == Activation::identity);
  CHECK(fixed.stages[1].entrance);
}

TEST_CASE("Learned labels start as the decoder of fixed ones", "[plan]") {
  RunConfig config = smallConfig(2);
  const SmallModel fixed(config, 12, 5);
  config.strategy.sil.labels = LabelKind::learned;
  const SmallModel learned(config, 12, 5);
  const Stage& stage = learned.stages[0]->stage;
  const StageTensor& tensor = stage.tensors().back();
  REQUIRE(tensor.layer == "head0.0.dense");
  const SilLabels& labels = fixed.stages[0]->labels;
  const Values values = valuesOf(stage.parameters());
  for (std::size_t i = 0; i < labels.values.size(); ++i) {
    const double centred = labels.values[i] - labels.mean[i % labels.mean.size()];
    REQUIRE(values[static_cast<std::size_t>(tensor.offset) + i] ==
            Approx(centred / labels.temperature).margin(1e-7));
  }
}

} // namespace partita::test::plan_heads
