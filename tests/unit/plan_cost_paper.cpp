#include "partita/config/deck.hpp"
#include "partita/plan/cost/cluster_file.hpp"
#include "partita/plan/cost/cost_model.hpp"
#include "partita/plan/network_plan.hpp"

#include "support/catch.hpp"
#include "support/source_directory.hpp"

namespace partita::test::plan_cost_paper {

namespace {

const std::string source_dir = sourceDirectory();

/// The numbers of the authors' program, and of an independent closed form, to the digits below.
constexpr double all_digits = 1e-9;

struct Case {
  std::string deck;
  Shape input;
};
const Case vgg{"paradl-vgg16", {3, 226, 226}}, resnet{"paradl-resnet-50", {3, 226, 226}},
    cosmoflow{"paradl-cosmoflow", {4, 512, 512, 512}};

Cluster abci() {
  return loadCluster(source_dir + "/clusters/abci.toml");
}

CostModel modelOf(const Case& which, const Cluster& cluster = abci()) {
  const RunConfig config = loadDeck(source_dir + "/input-decks/" + which.deck + ".toml", {});
  CostTask task;
  task.layers = layerCosts(planNetwork(config.network, which.input, config.data.classes));
  task.timing = cluster.timing(which.deck, 0);
  task.samples = static_cast<double>(config.data.samples);
  task.batch = static_cast<double>(config.training.batch);
  task.batch_per_replica = true;
  return {task, cluster, CostMode::paper};
}

void check(const CostModel& model, CostStrategy strategy, int ranks, double compute, double communication,
           double digits = all_digits) {
  const Prediction prediction = model.predict(strategy, ranks);
  INFO(nameOf(strategy) << " on " << ranks);
  CHECK(nameOf(prediction.obstacle) == "none");
  CHECK(prediction.epoch_compute == Approx(compute).epsilon(digits));
  CHECK(prediction.epochCommunication() == Approx(communication).epsilon(digits));
}

double secondsOf(const Prediction& prediction, ExchangeKind kind) {
  for (const Exchange& exchange : prediction.exchanges)
    if (exchange.kind == kind) return exchange.seconds;
  return 0.0;
}

} // namespace

TEST_CASE("A description of a cluster is written as it is read", "[plan]") {
  Cluster cluster = abci();
  cluster.networks.push_back({"with \"quotes\"", 0.25, 3});
  cluster.networks.push_back({"known", 0.0, 0, 1234, 0, 2e-9});
  cluster.workers = {{"known", 1, 2e-4, 5e4}, {"known", 2, 0.0, 1e5}, {"other", 1, 0.0, 7.0}};
  cluster.name += "\n";
  const Cluster read = parseCluster(clusterText(cluster), "cluster.toml");
  CHECK(clusterText(read) == clusterText(parseCluster(clusterText(read), "again.toml")));
  CHECK(read.memory == cluster.memory);
  CHECK(read.contention.leaders == cluster.contention.leaders);
  CHECK(read.networks[read.networks.size() - 2].deck == "with _quotes_");
  CHECK(read.networks[read.networks.size() - 2].spatial_layers == 3);
  CHECK(read.timing("known", 0).seconds_per_update == Approx(2e-9));
  CHECK(read.timing("", 1234).seconds_per_update == Approx(2e-9));
  CHECK(read.timing("with _quotes_", 0).seconds_per_update == 0.0);
  REQUIRE(read.worker("known", 0, 1) != nullptr);
  CHECK(read.worker("known", 0, 1)->overhead == Approx(2e-4));
  CHECK(read.worker("renamed", 1234, 2)->samples_per_second == Approx(1e5));
  CHECK(read.worker("other", 1, 1)->samples_per_second == Approx(7.0));
  CHECK(read.worker("known", 0, 3) == nullptr);
  CHECK(read.worker("renamed", 99, 1) == nullptr);
  CHECK(read.timing("known", 99).seconds_per_update == 0.0); // another network of that name
  CHECK(read.worker("known", 99, 1) == nullptr);
  cluster.networks.push_back({"known", 0.0, 0, 99, 0, 3e-9});
  CHECK(cluster.timing("known", 99).seconds_per_update == 3e-9);
  CHECK(cluster.timing("known", 1234).seconds_per_update == 2e-9);
  // A row that says how large the network is comes before one of the deck that does not.
  cluster.networks = {{"known", 4e-9, 7, 0, 0, 6e-9}, {"", 5e-9, 0, 1234}};
  CHECK(cluster.timing("known", 1234).seconds_per_update == 6e-9);
  CHECK(cluster.timing("known", 1234).spatial_layers == 7);
  REQUIRE(cluster.worker("known", 1234, 2) != nullptr);
  CHECK(cluster.worker("known", 1234, 2)->samples_per_second == 1e5);
  CHECK(cluster.timing("known", 1234).seconds_per_sample == 5e-9);
  CHECK(cluster.timing("known", 99).seconds_per_sample == 4e-9);
  REQUIRE(read.links.rows.size() == cluster.links.rows.size());
  for (const std::int64_t ranks : {2, 60, 100, 1000}) {
    CHECK(read.links.of(ranks).seconds(1e6) == Approx(cluster.links.of(ranks).seconds(1e6)).epsilon(1e-5));
    CHECK(read.layerLinks().of(ranks).seconds(1e6) ==
          Approx(cluster.layerLinks().of(ranks).seconds(1e6)).epsilon(1e-5));
  }
  const Cluster measured =
      parseCluster("[[message]]\nranks = 2\nbytes = 64\nseconds = 1e-6\n[[message]]\nranks = 2\n"
                   "bytes = 128\nseconds = 2e-6\n",
                   "messages.toml");
  CHECK(parseCluster(clusterText(measured), "cluster.toml").links.of(2).seconds(100.0) ==
        Approx(measured.links.of(2).seconds(100.0)));
  CHECK_NOTHROW(parseCluster(clusterText(Cluster{}), "assumed.toml"));
}

TEST_CASE("The tables of the authors follow from the decks", "[cost]") {
  const CostTask task = modelOf(resnet).task(); // copies: the models are temporary
  CHECK(sumOf(task.layers, &LayerCost::weights) == 22734016);
  CHECK(sumOf(task.layers, &LayerCost::authors_flops) == 14764606016);
  CHECK(sumOf(modelOf(vgg).task().layers, &LayerCost::weights) == 169801408);
  CHECK(sumOf(modelOf(vgg).task().layers, &LayerCost::authors_flops) == 66956003008);
  CHECK(sumOf(modelOf(cosmoflow).task().layers, &LayerCost::authors_flops) == 1998142505216);
  double flops = 0.0, outputs = 0.0, count = 0.0;
  for (const LayerCost& layer : task.layers) {
    if (layer.work != LayerWork::convolution) continue;
    flops += layer.authors_flops;
    outputs += layer.outputs;
    count += 1.0;
  }
  CHECK(count == 49);
  CHECK(flops == 14014207936);
  CHECK(outputs == 9096256);
}

TEST_CASE("Data parallelism of the paper", "[cost]") {
  const CostModel r50 = modelOf(resnet), v16 = modelOf(vgg);
  check(r50, CostStrategy::data, 2, 1996.48128, 18.3672128);
  check(r50, CostStrategy::data, 4, 998.24064, 13.9104096);
  check(r50, CostStrategy::data, 8, 499.12032, 33.2384724);
  check(r50, CostStrategy::data, 64, 62.39004, 6.07266639504);
  check(r50, CostStrategy::data, 1024, 3.8993775, 1.9676128296);
  check(v16, CostStrategy::data, 4, 2638.58848, 204.3016896);
  check(v16, CostStrategy::data, 64, 164.91178, 70.0337169);
  CHECK(r50.predict(CostStrategy::data, 64).steps == 313);
  CHECK(r50.predict(CostStrategy::data, 1024).steps == 20);
}

TEST_CASE("Filter and channel parallelism of the paper", "[cost]") {
  const CostModel r50 = modelOf(resnet), v16 = modelOf(vgg);
  for (const CostStrategy strategy : {CostStrategy::filter, CostStrategy::channel}) {
    check(r50, strategy, 4, 1150.44474057, 2175.1573824);
    check(r50, strategy, 64, 262.157921995, 18469.0494576);
    check(v16, strategy, 4, 2920.48484805, 3253.71168);
    check(v16, strategy, 64, 534.900763069, 20822.52312);
  }
}

TEST_CASE("Data and filter parallelism of the paper", "[cost]") {
  check(modelOf(resnet), CostStrategy::data_filter, 32, 143.805592571, 527.926502);
  check(modelOf(vgg), CostStrategy::data_filter, 32, 365.060606007, 4213.0871992);
  Cluster quiet = abci();
  quiet.contention = {};
  check(modelOf(vgg, quiet), CostStrategy::data_filter, 32, 365.060606007, 884.9796024);
  const Prediction prediction = modelOf(resnet).predict(CostStrategy::data_filter, 32);
  CHECK(prediction.grid.replicas == 8);
  CHECK(prediction.grid.parts == 4);
}

TEST_CASE("Data and spatial parallelism of the paper", "[cost]") {
  const CostModel model = modelOf(cosmoflow);
  const Prediction prediction = model.predict(CostStrategy::data_spatial, 16);
  CHECK(prediction.batch == 4);
  CHECK(prediction.epoch_compute / prediction.steps == Approx(0.554168696865).epsilon(all_digits));
  CHECK(secondsOf(prediction, ExchangeKind::halo) == Approx(.040712688).epsilon(all_digits));
  CHECK(secondsOf(prediction, ExchangeKind::gather) == Approx(.406663308).epsilon(all_digits));
  CHECK(secondsOf(prediction, ExchangeKind::gradients) == Approx(.00872299344).epsilon(all_digits));
  // The authors leave out what follows the second convolution, the last one that is divided.
  double rest = 0.0;
  int convolutions = 0;
  for (std::size_t i = 0; i < model.times().size(); ++i) {
    if (convolutions >= 2) rest += model.times()[i].perSample();
    if (model.task().layers[i].work == LayerWork::convolution) ++convolutions;
  }
  CHECK(prediction.epoch_compute / prediction.steps + rest == Approx(0.674041421354).epsilon(all_digits));
}

TEST_CASE("Memory in paper mode", "[cost]") {
  CHECK(modelOf(resnet).predict(CostStrategy::data, 8).memory == 15434845696);
  CHECK(modelOf(vgg).predict(CostStrategy::data, 8).memory == 9360484864);
  double inputs = 0.0, outputs = 0.0;
  const CostTask task = modelOf(cosmoflow).task();
  for (const LayerCost& layer : task.layers) {
    if (layer.in_place) continue;
    inputs += layer.inputs;
    outputs += layer.outputs;
  }
  CHECK(inputs == 3528104656);
  CHECK(outputs == 2991233748);
  CHECK(sumOf(task.layers, &LayerCost::weights) == 2128064);
  CHECK(nameOf(modelOf(cosmoflow).predict(CostStrategy::data, 4).obstacle) == "not_enough_memory");
}

} // namespace partita::test::plan_cost_paper
