#include "partita/config/deck.hpp"

#include "cost_networks.hpp"
#include "support/catch.hpp"
#include "support/source_directory.hpp"

namespace partita::test::plan_cost_layers {

namespace {

const std::string source_dir = sourceDirectory();

std::vector<LayerCost> costsOfDeck(const std::string& name, const Shape& input, std::int64_t classes) {
  const RunConfig config = loadDeck(source_dir + "/input-decks/" + name + ".toml", {});
  return layerCosts(planNetwork(config.network, input, classes));
}

struct Table {
  double parameters, weights, macs;
};

void check(const std::vector<LayerCost>& layers, const Table& published) {
  CHECK(sumOf(layers, &LayerCost::weights) + sumOf(layers, &LayerCost::vectors) == published.parameters);
  CHECK(sumOf(layers, &LayerCost::weights) == published.weights);
  CHECK(sumOf(layers, &LayerCost::macs) == published.macs);
}

double outputsOf(const std::vector<LayerCost>& layers, LayerWork work) {
  double sum = 0.0;
  for (const LayerCost& layer : layers)
    if (layer.work == work) sum += layer.outputs;
  return sum;
}

} // namespace

TEST_CASE("VGG16 has the published sizes", "[cost]") {
  const std::vector<LayerCost> vgg = costsOfDeck("vgg-16", {3, 224, 224}, 1000);
  check(vgg, {138357544, 138344128, 15470264320});
  CHECK(outputsOf(vgg, LayerWork::convolution) + outputsOf(vgg, LayerWork::product) == 13556712);
  CHECK(vgg[0].weights == 1728);
  CHECK(vgg[0].macs == 86704128);
  CHECK(vgg[0].vectors == 64);
  CHECK(vgg[1].macs == 1849688064);
  check(costsOfDeck("paradl-vgg16", {3, 226, 226}, 1000), {169814824, 169801408, 16294304512});
}

TEST_CASE("ResNets have the published sizes", "[cost]") {
  const std::vector<LayerCost> resnet50 = layerCosts(resnet({3, 4, 6, 3}, true));
  check(resnet50, {25557032, 25502912, 4089184256});
  CHECK(outputsOf(resnet50, LayerWork::convolution) + outputsOf(resnet50, LayerWork::product) == 11114984);
  check(costsOfDeck("resnet-50", {3, 224, 224}, 1000), {25557032, 25502912, 4089184256});
  check(layerCosts(resnet({3, 4, 6, 3}, false)), {25557032, 25502912, 3857973248});
  check(layerCosts(resnet({3, 8, 36, 3}, true)), {60192808, 60040384, 11513626624});
  check(layerCosts(resnet({3, 8, 36, 3}, false)), {60192808, 60040384, 11282415616});
}

TEST_CASE("The stages of ResNet-50 have the published sizes", "[cost]") {
  struct Stage {
    std::int64_t first, last; ///< cuttable layers
    double convolutions, parameters, macs, outputs;
  };
  const std::vector<LayerCost> layers = layerCosts(resnet({3, 4, 6, 3}, true));
  for (const Stage& stage :
       {Stage{0, 3, 1, 9536, 118013952, 802816}, Stage{3, 6, 10, 215808, 667942912, 4415488},
        Stage{6, 10, 13, 1219584, 1027604480, 3110912}, Stage{10, 16, 19, 7098368, 1464336384, 2157568},
        Stage{16, 19, 10, 14964736, 809238528, 627200}}) {
    Stage found{stage.first, stage.last, 0, 0, 0, 0};
    for (const LayerCost& layer : layers) {
      if (layer.index < stage.first || layer.index >= stage.last) continue;
      found.parameters += layer.parameters();
      found.macs += layer.macs;
      if (layer.work != LayerWork::convolution) continue;
      found.convolutions += 1;
      found.outputs += layer.outputs;
    }
    CHECK(found.convolutions == stage.convolutions);
    CHECK(found.parameters == stage.parameters);
    CHECK(found.macs == stage.macs);
    CHECK(found.outputs == stage.outputs);
  }
}

TEST_CASE("The versions of CosmoFlow have the published sizes", "[cost]") {
  const std::vector<LayerCost> paradl = costsOfDeck("paradl-cosmoflow", {4, 512, 512, 512}, 4);
  check(paradl, {2128064, 2128064, 472306170880});
  CHECK(paradl[0].out == Shape{16, 510, 510, 510});
  CHECK(paradl[0].outputs * 4 == 8489664000); // bytes of a sample
  check(layerCosts(cosmoFlow256()), {2128064, 2128064, 73552364544});
  check(layerCosts(cosmoFlowMlperf(32)), {5597604, 5596416, 10204750080});
  CHECK(sumOf(layerCosts(cosmoFlowMlperf(16)), &LayerCost::weights) +
            sumOf(layerCosts(cosmoFlowMlperf(16)), &LayerCost::vectors) ==
        2454964);
  check(layerCosts(cosmoFlowSc18()), {7041443, 7038128, 8763610496});
}

TEST_CASE("Channels of images, vectors and positions", "[cost]") {
  const RunConfig config = parseDeck("[data]\nkind = \"grammar\"\n[network]\nlayers = ["
                                     "{ type = \"embedding\", width = 8 }, "
                                     "{ type = \"dense\", units = 32 }, { type = \"dense\" }]\n",
                                     "deck");
  const auto text = layerCosts(planNetwork(config.network, {16}, 50));
  CHECK(text[1].channels() == 8);
  CHECK(text[1].filters() == 32);
  CHECK(text[1].weights == 8 * 32);
  CHECK(text[1].macs == 16 * 8 * 32);
  CHECK(text[2].filters() == 50);
  const auto image = layerCosts(
      planOf("{ type = \"conv2d\", channels = 4, kernel = 3 }, { type = \"dense\" }", {3, 6, 6}, 10));
  CHECK(image[0].channels() == 3);
  CHECK(image[0].filters() == 4);
  CHECK(image[1].channels() == 4 * 4 * 4);
}

TEST_CASE("Rows of a residual group are those of its branches and their sum", "[cost]") {
  const std::vector<LayerCost> rows =
      layerCosts(planOf(bottlenecks(8, 2, 2, true) + "{ type = \"dense\" }", {4, 8, 8}, 10));
  REQUIRE(rows.size() == 3 * 2 + 2 + 1 + 3 * 2 + 1 + 1);
  CHECK(rows[6].in_shortcut);
  CHECK_FALSE(rows[8].in_shortcut);
  CHECK(rows[8].sum);
  CHECK(rows[8].inputs == 32 * 4 * 4);
  CHECK(rows[8].authors_flops == 2 * 32 * 4 * 4);
  CHECK(rows[8].activation_flops == 2 * 32 * 4 * 4);
  CHECK(rows[8].index == 0);
  CHECK(rows[9].index == 1);
  CHECK(rows[1].in_place);
  CHECK(rows[1].authors_flops == 2 * 4 * 8 * 8 * 8);
}

} // namespace partita::test::plan_cost_layers
