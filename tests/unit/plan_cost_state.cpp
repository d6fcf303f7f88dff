#include "partita/plan/cost/backward_passes.hpp"
#include "partita/plan/cost/cluster_file.hpp"
#include "partita/plan/cost/cost_model.hpp"
#include "partita/plan/cost/cost_terms.hpp"
#include "partita/plan/cost/offload_time.hpp"
#include "partita/plan/cost/refine.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/partition.hpp"

#include "cost_networks.hpp"
#include "support/catch.hpp"

// What saves memory takes time: recomputed activations, and optimiser state that is elsewhere.

namespace partita::test::plan_cost_state {

namespace {

std::string block(const std::string& layers, bool recompute, const std::string& type = "block") {
  return "{ type = \"" + type + "\", recompute = " + (recompute ? "true" : "false") + ", layers = [" +
         layers + "] }, ";
}

std::string dense(int units) {
  return "{ type = \"dense\", units = " + std::to_string(units) + " }, ";
}

const std::string last = "{ type = \"dense\" }";

RunConfig deckOf(const std::string& layers, const std::string& more = "") {
  return parseDeck("[network]\nlayers = [" + layers + "]\n[training]\nbatch = 32\n" + more, "deck");
}

Cluster clusterOf(std::int64_t node_ranks = 1) {
  Cluster cluster;
  cluster.node_ranks = node_ranks;
  cluster.overlap = 0.0;
  cluster.half_size = 0.0; // times are proportional to FLOPs
  return cluster;
}

/// Of 100 steps per epoch on samples of `shape`.
CostModel modelOf(const RunConfig& deck, const Shape& shape = {64}, const Cluster& cluster = clusterOf()) {
  return {costTask(deck, shape, 10, 3200), cluster, CostMode::exact};
}

/// Seconds by which a step computes longer if its block recomputes.
double longer(const std::string& layers, const RankChoice& choice, const Shape& shape, const Cluster& cluster,
              const std::string& more = "") {
  const auto step = [&](bool recompute) {
    const Prediction found =
        modelOf(deckOf(block(layers, recompute) + last, more), shape, cluster).predict(choice);
    REQUIRE(found.hasTimes());
    return found.epoch_compute / 100.0;
  };
  return step(true) - step(false);
}

double normSeconds(const Prediction& prediction) {
  for (const Exchange& exchange : prediction.exchanges)
    if (exchange.kind == ExchangeKind::norm) return exchange.seconds;
  return 0.0;
}

} // namespace

TEST_CASE("Leaves are recomputed once for each group around them", "[cost]") {
  const auto counts = [](const std::string& layers, bool input_gradient) {
    std::vector<std::int64_t> again;
    for (const BackwardPass& pass : backwardPasses(planOf(layers + last, {64}, 10), input_gradient))
      again.push_back(pass.again);
    return again;
  };
  using Counts = std::vector<std::int64_t>;
  const std::string nested = block(dense(8) + block(dense(16), true) + dense(8), true);
  CHECK(counts(dense(8), false) == Counts{0, 0});
  CHECK(counts(nested, false) == Counts{1, 2, 1, 0});
  CHECK(counts(block(dense(8), false) + block(dense(8) + dense(8), true), false) == Counts{0, 1, 1, 0});
  const std::string residual = "{ type = \"residual\", recompute = true, layers = [" + dense(8) +
                               "], shortcut = [" + dense(8) + "] }, ";
  CHECK(counts(residual, false) == Counts{1, 1, 0});
  // Nothing goes back through layers before the first parameters, but a group around them computes them.
  const std::string activation = "{ type = \"activation\", activation = \"gelu\" }, ";
  CHECK(counts(block(activation, true), false) == Counts{0, 0});
  CHECK(counts(block(activation, true), true) == Counts{1, 0});
  CHECK(counts(block(block(activation, true) + dense(8), true), false) == Counts{1, 1, 0});
}

TEST_CASE("Leaves at the start of a network have no input gradient, in either branch", "[cost]") {
  const auto wanted = [](const std::string& layers, bool input_gradient) {
    std::string text;
    for (const BackwardPass& pass : backwardPasses(planOf(layers + last, {64}, 10), input_gradient))
      text += pass.input_gradient ? '1' : '0';
    return text;
  };
  const std::string activation = "{ type = \"activation\", activation = \"gelu\" }, ";
  const std::string projected =
      "{ type = \"residual\", layers = [" + dense(8) + dense(8) + "], shortcut = [" + dense(8) + "] }, ";
  CHECK(wanted(activation + dense(8), false) == "001");
  CHECK(wanted(activation + dense(8), true) == "111");
  CHECK(wanted(projected, false) == "0101");
  CHECK(wanted(projected, true) == "1111");
  CHECK(wanted(block(projected, false) + projected, false) == "0101111");
}

TEST_CASE("FLOPs of a network that begins with a projection are those of its stage", "[cost]") {
  const RunConfig deck = deckOf("{ type = \"residual\", layers = [" + dense(8) + dense(32) +
                                "], shortcut = [" + dense(32) + "] }, " + last);
  // 64x8, 8x32, 64x32 and 32x10 weights; products with the network's input give only gradients of weights.
  const double flops = 2.0 * (2 * 64 * 8 + 3 * 8 * 32 + 2 * 64 * 32 + 3 * 32 * 10);
  const CostTask task = costTask(deck, {64}, 10, 3200);
  CHECK(trainingFlops(task.layers) == flops);
  CHECK(planPartition(deck, planNetwork(deck.network, {64}, 10), 10).joint.flops == flops);
}

TEST_CASE("A group that recomputes takes another forward pass", "[cost]") {
  const std::string layers = dense(128) + dense(64);
  // Two products of 64 x 128 for each of 32 samples, with 1e12 FLOP/s.
  const double forward = 32 * 2 * 2 * 64 * 128 * 1e-12;
  const Cluster cluster = clusterOf(4);
  CHECK(longer(layers, {CostStrategy::serial, {1, 1, 1}}, {64}, cluster) == Approx(forward));
  CHECK(longer(layers, {CostStrategy::data, {1, 4, 1}}, {64}, cluster) == Approx(forward / 4));
  // One microbatch passes through the stages one after another; of eight, each makes the first stage longer.
  const RankChoice pipeline{CostStrategy::pipeline_gpipe, {2, 1, 1}, {}, 1};
  CHECK(longer(layers, pipeline, {64}, cluster) == Approx(forward));
  RankChoice eight = pipeline;
  eight.microbatches = 8;
  CHECK(longer(layers, eight, {64}, cluster) == Approx(forward));
  const CostModel model = modelOf(deckOf(block(layers, true) + last));
  // Passes without recomputation: three products of each layer, without the gradient of the input.
  CHECK(model.recomputedShare() == Approx(2 * 64.0 * 128 / (2 * 64 * 128 + 3 * 128 * 64 + 3 * 64 * 10)));
}

TEST_CASE("What recomputed layers send and copy is sent and copied again", "[cost]") {
  const std::string conv = "{ type = \"conv2d\", channels = 8, kernel = 3, padding = 1 }";
  Cluster cluster = clusterOf(4);
  const RankChoice filter{CostStrategy::filter, {1, 1, 4}, Split::filter};
  const double without = longer(conv, filter, {3, 8, 8}, cluster);
  cluster.seconds_per_copied_byte = 1e-9;
  // The gathered output, 8 channels of 64 places.
  CHECK(longer(conv, filter, {3, 8, 8}, cluster) - without == Approx(32 * 4 * 8 * 64 * 1e-9));
  const auto norms = [&](bool recompute) {
    const std::string norm = conv + ", { type = \"batch-norm\", replicas = true }";
    return normSeconds(
        modelOf(deckOf(block(norm, recompute) + last), {3, 8, 8}, cluster).predict(CostStrategy::data, 2));
  };
  // Mean and variance again, not their gradients or the mean of the running ones: six sums instead of four.
  CHECK(norms(true) == Approx(1.5 * norms(false)).epsilon(1e-3));
}

TEST_CASE("A network that was timed has its time without recomputation", "[cost]") {
  Cluster cluster = clusterOf();
  for (const bool recompute : {false, true}) {
    CostTask task = modelOf(deckOf(block(dense(128) + dense(64), recompute) + last)).task();
    task.timing.seconds_per_sample = 1e-3;
    const CostModel model(task, cluster, CostMode::exact);
    CHECK(model.predict(CostStrategy::serial, 1).epoch_compute ==
          Approx(3.2 * (1.0 + model.recomputedShare())));
  }
}

TEST_CASE("Offloaded state passes through the device in each update", "[cost]") {
  const auto seconds = [](const std::string& optimiser, bool device = false, double on_device = 0.4,
                          const std::string& run = "") {
    Cluster cluster;
    cluster.host_bandwidth = 8000;
    cluster.file_bandwidth = 4000;
    cluster.device = device;
    const RunConfig deck = deckOf(last, "[optimiser]\n" + optimiser + "\noffload_bucket = 250\n" + run);
    return updateSeconds(cluster, deck, 1000, on_device, 4);
  };
  const std::string host = "offload = \"host\"", file = "offload = \"file\"";
  CHECK(seconds("offload = \"none\"") == 0.4);
  // Two moments of 4000 bytes: 1 s from host memory in each direction, 2 s from a file.
  CHECK(seconds(host) == Approx(1.0 + 0.4 + 1.0));
  CHECK(seconds(file, true) == Approx(2.0 + 0.4 + 2.0));
  // Overlapped: the first of four buckets takes its copies and its update, the others what takes longest.
  CHECK(seconds(host, true) == Approx((1.0 + 0.4 + 1.0 + 3 * 1.0) / 4));
  CHECK(seconds(file) == Approx((2.0 + 0.4 + 2.0 + 3 * 2.0) / 4));
  CHECK(seconds(file, false, 8.0) == Approx((2.0 + 8.0 + 2.0 + 3 * 8.0) / 4));
  // Masters move too; momentum is one vector.
  CHECK(seconds(host, false, 0.4, "[run]\nprecision = \"bf16\"\n") == Approx(1.5 + 0.4 + 1.5));
  CHECK(seconds("kind = \"sgd\"\n" + host) == Approx(0.5 + 0.4 + 0.5));
}

TEST_CASE("The update of each stage includes the copies of its state", "[cost]") {
  const auto step = [](const std::string& offload, const RankChoice& choice) {
    const RunConfig deck = deckOf(dense(128) + last, "[optimiser]\noffload = \"" + offload + "\"\n");
    return modelOf(deck, {64}, clusterOf(4)).predict(choice).epoch_compute / 100.0;
  };
  const RankChoice serial, pipeline{CostStrategy::pipeline_1f1b, {2, 1, 1}, {}, 1};
  const auto longer_by = [&](const RankChoice& choice) {
    return step("host", choice) - step("none", choice);
  };
  // 64 x 128 weights, 128 biases, 128 x 10 weights, 10 biases with their gap to 64: two moments, in and out.
  CHECK(longer_by(serial) == Approx(2 * 2 * 4 * (8192 + 128 + 1280 + 64) / 10e9));
  CHECK(longer_by(pipeline) == Approx(2 * 2 * 4 * (8192 + 128) / 10e9)); // of the stage that has more
}

TEST_CASE("The memory of a device has neither offloaded state nor copies that are summed on the host",
          "[cost]") {
  const auto memoryOf = [](bool device, const std::string& offload, const std::string& precision, int ranks) {
    Cluster cluster = clusterOf(4);
    cluster.device = device;
    const RunConfig deck =
        deckOf(dense(2048) + last, "[optimiser]\noffload_bucket = 1024\noffload = \"" + offload +
                                       "\"\n[run]\nprecision = \"" + precision + "\"\n");
    const CostModel model = modelOf(deck, {64}, cluster);
    const double found = model.predict(CostStrategy::data, ranks).memory;
    CHECK(model.predict(model.task().program->run(ranks)).memory == found);
    return found;
  };
  const double values = 2048 * 64 + 2048 + 2048 * 10 + 64, bucket = 1024; // with the gap after 10 biases
  for (const double vectors : {2.0, 3.0}) {                               // Adam's moments, and masters
    const std::string precision = vectors == 2.0 ? "float" : "bf16";
    const auto saved = [&](bool device, const std::string& offload) {
      return memoryOf(device, "none", precision, 2) - memoryOf(device, offload, precision, 2);
    };
    const double moved = 4 * vectors * values, buffers = 4 * 3 * vectors * bucket;
    CHECK(saved(true, "host") == moved - buffers);
    CHECK(saved(true, "file") == moved - buffers);
    CHECK(saved(false, "host") == -buffers);
    CHECK(saved(false, "file") == moved - buffers);
  }
  // Replicas of 16 bits sum a copy of their gradients in float.
  const auto copied = [&](bool device) {
    return memoryOf(device, "none", "bf16", 2) - memoryOf(device, "none", "float", 2);
  };
  CHECK(copied(false) - copied(true) == 4 * values);
}

TEST_CASE("Runs with offload refine what computes, not what copies", "[cost]") {
  const RunConfig deck = deckOf(dense(128) + last, "[optimiser]\noffload = \"host\"\n");
  Cluster truth = clusterOf(), cluster = clusterOf();
  truth.flops = 2e10;
  const CostModel model = modelOf(deck, {64}, truth);
  RunEvidence evidence{model.task(), model.task().program->run(1)};
  evidence.compute = model.predict(evidence.run).busySeconds();
  refine(cluster, {evidence});
  double passes = 0.0;
  for (const LayerTime& time : model.times()) passes += time.perSample();
  CHECK(cluster.networks.at(0).seconds_per_sample == Approx(passes));
}

TEST_CASE("A description has the rates of offloaded state", "[cost]") {
  Cluster cluster;
  CHECK_FALSE(cluster.device);
  cluster = parseCluster("[offload]\nhost_bandwidth = 3e9\nfile_bandwidth = 4e8\ndevice = true\n", "cluster");
  const Cluster again = parseCluster(clusterText(cluster), "cluster");
  CHECK(again.host_bandwidth == 3e9);
  CHECK(again.file_bandwidth == 4e8);
  CHECK(again.device);
  CHECK_THROWS(parseCluster("[offload]\nhost_bandwidth = 0\n", "cluster"));
}

} // namespace partita::test::plan_cost_state
