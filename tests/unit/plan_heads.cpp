#include "partita/config/deck.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/partition.hpp"
#include "partita/plan/strategies/sil.hpp"
#include "partita/plan/strategy_plan.hpp"

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
  CHECK(partition.local[0].flops == first.trainEffort(false).flops + 3 * pooled.forwardFlops());
}

TEST_CASE("Windows of a pool before the labels", "[plan]") {
  const auto widthAt = [](const std::string& pool) {
    return cut(deckOf("stages = 2\ncuts = [1]\nlabel_pool = " + pool)).stages[0].labelWidth();
  };
  CHECK(widthAt("0") == 16 * 10 * 12);
  CHECK(widthAt("1") == 16 * 20 * 24);
  CHECK(widthAt("5") == 16 * 4 * 4); // what does not fill a window is left out
  CHECK_THROWS_WITH(widthAt("21"), Catch::Contains("strategy/head[0]"));
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
      Catch::Contains("strategy/head[0]: conv2d needs channels x rows x columns"));
}

TEST_CASE("A head looks ahead with a copy of the next layer that has parameters", "[plan]") {
  const std::string layers = R"(layers = [
  { type = "conv2d", channels = 4, kernel = 3, activation = "relu" }, { type = "max-pool", kernel = 2 },
  { type = "conv2d", channels = 6, kernel = 3, activation = "relu" }, { type = "dense", units = 20 }, { type = "dense" },
])";
  const Partition partition =
      cut(deckOf("stages = 4\ncuts = [1, 3, 4]\nlookahead = 10", layers), {1, 12, 12});
  const StagePlan& first = partition.stages[0];
  REQUIRE(first.copied == 2);
  CHECK(first.head[0].name() == "head0.0.max-pool");
  CHECK(first.head[1].name() == "head0.1.conv2d");
  CHECK(first.head[1].out == partition.stages[1].layers.back().out);
  CHECK(first.labelWidth() == 6 * 3 * 3);
  REQUIRE(first.copies.size() == 1);
  CHECK(first.copies[0].from_stage == 1);
  CHECK(first.copies[0].to == first.storedBeforeHead());
  CHECK(first.copies[0].size == storedSize(6 * 4 * 9) + storedSize(6));
  CHECK(first.copies[0].keep == Approx(std::pow(0.995, 10)));
  CHECK(partition.stages[1].copies.size() == 2); // one of its own layer, one in its head
  CHECK(partition.stages[2].copied == 0);        // the last layer predicts classes itself
  CHECK(partition.stages[2].head.size() == 1);
}

TEST_CASE("A head repeats the next layers and the pooling before the last layer", "[plan]") {
  const std::string layers = R"(layers = [
  { type = "conv2d", channels = 4, kernel = 3, activation = "relu" }, { type = "max-pool", kernel = 2 },
  { type = "conv2d", channels = 6, kernel = 3, activation = "relu" },
  { type = "conv2d", channels = 8, kernel = 3, padding = 1 }, { type = "global-average-pool" }, { type = "dense" },
])";
  const auto headAfter = [&](const std::string& cuts, const std::string& depth) {
    const Partition partition =
        cut(deckOf("stages = 2\ncuts = [" + cuts + "]\nhead_depth = " + depth, layers), {1, 12, 12});
    std::vector<std::string> names;
    for (const LayerPlan& layer : partition.stages[0].head) names.push_back(layer.spec.type);
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(headAfter("1", "0") == Names{"dense"});
  CHECK(headAfter("1", "1") == Names{"max-pool", "conv2d", "global-average-pool", "dense"});
  CHECK(headAfter("1", "2") == Names{"max-pool", "conv2d", "conv2d", "global-average-pool", "dense"});
  CHECK(headAfter("1", "9") == headAfter("1", "2")); // there are no more
  CHECK(headAfter("4", "1") == Names{"dense"});      // only the last layer is left
}

TEST_CASE("Heads of residual stages of images repeat the layers that change the shape first", "[plan]") {
  const auto residual = [](const std::string& convolution, const std::string& shortcut) {
    return "{ type = \"residual\", layers = [{ type = \"conv2d\", " + convolution + " }]" + shortcut +
           " },\n";
  };
  const std::string same = residual("channels = 4, kernel = 3, padding = 1", ""),
                    wide = residual("channels = 6, kernel = 3, padding = 1", ""),
                    changing = residual(
                        "channels = 6, kernel = 2, stride = 2",
                        ", shortcut = [{ type = \"conv2d\", channels = 6, kernel = 1, stride = 2 }]");
  const std::string layers = "layers = [{ type = \"conv2d\", channels = 4, kernel = 3 },\n" + same + same +
                             "{ type = \"max-pool\", kernel = 2 },\n" + changing + wide + wide +
                             "{ type = \"global-average-pool\" }, { type = \"dense\" }]\n";
  const auto headAfter = [&](int cut_at, const std::string& options) {
    const Partition partition =
        cut(deckOf("stages = 2\ncuts = [" + std::to_string(cut_at) + "]\n" + options, layers), {1, 14, 14});
    std::vector<Shape> shapes;
    for (const LayerPlan& layer : partition.stages[0].head) shapes.push_back(layer.out);
    return shapes;
  };
  using Shapes = std::vector<Shape>;
  const Shape pooled{4, 6, 6}, small{6, 3, 3}, values{6}, classes{10};
  CHECK(headAfter(2, "head_depth = 1") == Shapes{pooled, small, values, classes});
  CHECK(headAfter(2, "head_depth = 2") == Shapes{pooled, small, small, values, classes});
  CHECK(headAfter(2, "head_depth = 9") == Shapes{{4, 12, 12}, pooled, small, small, small, values, classes});
  CHECK(headAfter(5, "head_depth = 1") == Shapes{small, values, classes});
  CHECK(headAfter(2, "") == headAfter(2, "head_depth = 2")); // four residual layers follow
  CHECK(headAfter(3, "") == headAfter(3, "head_depth = 1"));
  CHECK(headAfter(2, "head_depth = 1\nlookahead = 5") ==
        Shapes{{4, 12, 12}, {4}, classes}); // the next layer itself
}

TEST_CASE("A stage reconstructs its input by a linear map at each place", "[plan]") {
  const Partition partition = cut(deckOf("stages = 4\ncuts = [1, 2, 3]\nreconstruct = 0.1",
                                         R"(layers = [
  { type = "conv2d", channels = 16, kernel = 3, padding = 1, activation = "relu" },
  { type = "conv2d", channels = 8, kernel = 2, stride = 2, activation = "relu" },
  { type = "dense", units = 20, activation = "relu" },
  { type = "dense" },
])"));
  const StagePlan& second = partition.stages[1];
  CHECK(partition.stages[0].decoder_window == 1);
  CHECK(second.decoder_window == 2);
  REQUIRE(second.decoder.size() == 1);
  CHECK(second.decoder[0].name() == "head1.decoder0.conv2d");
  CHECK(second.decoder[0].out == Shape{16, 10, 12});
  CHECK(second.storedBeforeHead() ==
        storedSize(8 * 16 * 4) + storedSize(8) + storedSize(16 * 8) + storedSize(16));
  CHECK(partition.stages[2].decoder[0].out == Shape{8 * 10 * 12});
  CHECK(partition.stages[3].decoder.empty());
  CHECK_THROWS_WITH(
      cut(deckOf("stages = 2\ncuts = [2]\nreconstruct = 0.1")),
      Catch::Contains("strategy/reconstruct: the input of stage 1, 3x20x24, cannot be averaged"));
}

TEST_CASE("Labels are refreshed only by weights of the same shape", "[plan]") {
  const std::string strategy = "stages = 2\ncuts = [2]\nrefresh = 10\n";
  const std::string layers = R"(layers = [{ type = "dense", units = 30 }, { type = "dense", units = 40 },
    { type = "dense", units = 20 }, { type = "dense" }])";
  CHECK_THROWS_WITH(cut(deckOf(strategy, layers)),
                    Catch::Contains("strategy/refresh: the weights of the last layer, 10x20"));
  const Partition partition = cut(deckOf(strategy + "head = [{type = \"dense\", units = 20}]", layers));
  const StagePlan& last = partition.stages[1];
  REQUIRE(last.copies.size() == 1);
  CHECK(last.copies[0].from == storedSize(20 * 40) + storedSize(20));
  CHECK(last.copies[0].size == storedSize(200));
  CHECK(last.copies[0].keep == 0.0);
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

TEST_CASE("Fixed labels are the same, whichever key names their kind", "[plan]") {
  for (const char* kind : {"uniform", "gaussian"}) {
    const std::string mse = "loss = \"mse\"\n", named = " = \"" + std::string(kind) + "\"";
    const StrategySection by_labels = deckOf(mse + "labels" + named).strategy,
                          by_start = deckOf(mse + "label_init" + named).strategy;
    const StrategyPlan& plan = planOf(by_labels);
    CHECK(plan.matchedBefore(by_start, 3) == plan.matchedBefore(by_labels, 3));
    CHECK(plan.facts(by_start) == plan.facts(by_labels));
    CHECK(plan.sameTargets(by_start, by_labels));
    CHECK_FALSE(plan.sameTargets(by_start, deckOf(mse + "labels = \"sign\"").strategy));
  }
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
