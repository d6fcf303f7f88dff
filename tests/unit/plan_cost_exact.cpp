#include "partita/plan/cost/cost_model.hpp"
#include "partita/plan/cost/kernel_shape.hpp"
#include "partita/plan/cost/pipeline_events.hpp"
#include "partita/plan/grid_plan.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/parts/part_traffic.hpp"
#include "partita/plan/stage_maker.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "cost_networks.hpp"
#include "support/catch.hpp"
#include "support/computing_time.hpp"
#include "support/source_directory.hpp"

namespace partita::test::plan_cost_exact {

namespace {

const std::vector<CostStrategy> all_strategies{
    CostStrategy::serial,       CostStrategy::data,     CostStrategy::spatial,  CostStrategy::filter,
    CostStrategy::channel,      CostStrategy::grid,     CostStrategy::pipeline, CostStrategy::data_filter,
    CostStrategy::data_spatial, CostStrategy::data_grid};

using Network = std::vector<LayerPlan>;

std::vector<LayerPlan> vgg16() {
  const RunConfig config = loadDeck(sourceDirectory() + "/input-decks/vgg-16.toml", {});
  return planNetwork(config.network, {3, 224, 224}, 1000);
}

std::vector<Network> networks() {
  return {vgg16(), resnet({3, 4, 6, 3}, true), cosmoFlowMlperf(32),
          planOf("{ type = \"dense\", units = 96, repeat = 5 }, { type = \"dense\" }", {784}, 10)};
}

Cluster clusterOf(std::int64_t node_ranks) {
  Cluster cluster;
  cluster.node_ranks = node_ranks;
  cluster.seconds_per_update = 1e-10;
  cluster.seconds_per_reduced_byte = 1e-11;
  cluster.overlap = 0.0;   // so that all communication is seen
  cluster.half_size = 0.0; // and times are proportional to FLOPs
  cluster.links.rows = {{4, {1e-6, 2e-11, {}}}, {1 << 20, {5e-6, 1e-10, {}}}};
  return cluster;
}

CostTask taskOf(const Network& layers, double batch, double samples = 100000) {
  CostTask task;
  task.layers = layerCosts(layers);
  task.batch = batch;
  task.samples = samples;
  RunConfig deck;
  deck.training.batch = static_cast<std::int64_t>(batch);
  task.program = std::make_shared<Program>(deck, layers);
  return task;
}

const std::vector<PipelineSchedule> schedules{PipelineSchedule::message_driven, PipelineSchedule::one_f_one_b,
                                              PipelineSchedule::eager_one_f_one_b, PipelineSchedule::gpipe};

StrategySection scheduled(PipelineSchedule schedule) {
  StrategySection section;
  section.pipeline.schedule = schedule;
  return section;
}

void checkSame(const Prediction& a, const Prediction& b) {
  INFO(nameOf(a.strategy) << " and " << nameOf(b.strategy) << " on " << a.ranks << a.detail << b.detail);
  REQUIRE(a.hasTimes());
  REQUIRE(b.hasTimes());
  CHECK(a.epoch_compute == Approx(b.epoch_compute).epsilon(1e-12));
  CHECK(a.epochCommunication() == Approx(b.epochCommunication()).epsilon(1e-12));
  CHECK(a.memory == Approx(b.memory).epsilon(1e-12));
}

double bytesSent(const Prediction& prediction) {
  double sum = 0.0;
  for (const Exchange& exchange : prediction.exchanges) sum += exchange.bytes;
  return sum;
}

} // namespace

TEST_CASE("Kernels are timed at shares of any batch, however small", "[cost]") {
  CHECK(timedSamples(64, 16) == std::vector<std::int64_t>{64, 32, 16, 8, 4});
  CHECK(timedSamples(33, 4) == std::vector<std::int64_t>{33, 17, 9, 8});
  CHECK(timedSamples(8, 16) == std::vector<std::int64_t>{8, 4, 2, 1});
  CHECK(timedSamples(1, 16) == std::vector<std::int64_t>{1});
  CHECK(timedSamples(32, 1) == std::vector<std::int64_t>{32});
}

TEST_CASE("On one rank every strategy is the serial one", "[cost]") {
  std::mt19937 random(1);
  for (const auto& layers : networks()) {
    for (const CostMode mode : {CostMode::exact, CostMode::paper}) {
      const double batch = std::uniform_int_distribution<int>(1, 512)(random);
      const CostModel model(taskOf(layers, batch), clusterOf(4), mode);
      const Prediction serial = model.predict(CostStrategy::serial, 1);
      CHECK(serial.epoch_compute > 0.0);
      LayerTime whole;
      for (const LayerTime& time : model.times()) {
        whole.forward += time.forward;
        whole.backward += time.backward;
        whole.update += time.update;
      }
      const double samples = mode == CostMode::exact ? serial.steps * batch : 100000.0;
      CHECK(serial.steps * serial.busy.forward == Approx(samples * whole.forward));
      CHECK(serial.steps * serial.busy.backward == Approx(samples * whole.backward));
      CHECK(serial.busy.update == Approx(whole.update));
      for (const CostStrategy strategy : all_strategies) {
        if (!model.has(strategy)) continue;
        const Prediction prediction = model.predict(strategy, 1);
        checkSame(prediction, serial);
        CHECK(prediction.epochCommunication() == 0.0);
      }
    }
  }
}

TEST_CASE("Ranks that compute longest do so or wait for other stages", "[cost]") {
  const CostModel model(taskOf(vgg16(), 256), clusterOf(4), CostMode::exact);
  for (const CostStrategy strategy : all_strategies) {
    const Prediction found = model.predict(strategy, strategy == CostStrategy::serial ? 1 : 8);
    INFO(nameOf(strategy));
    REQUIRE(found.hasTimes());
    CHECK(found.busySeconds() == Approx(found.busy.total()));
    CHECK(found.busy.backward > found.busy.forward);
    CHECK((found.idleSeconds() > 0.0) == (strategy == CostStrategy::pipeline));
    CHECK(found.nodes == (strategy == CostStrategy::serial ? 1 : 2));
  }
}

TEST_CASE("Memory in exact mode is that of the program", "[cost]") {
  const std::string text =
      "[network]\nlayers = [{ type = \"conv2d\", channels = 8, kernel = 3, padding = 1 }, "
      "{ type = \"conv2d\", channels = 16, kernel = 3 }, { type = \"dense\" }]\n"
      "[strategy]\nkind = \"pipeline\"\nmicrobatches = 4\nschedule = \"1f1b\"\n"
      "[training]\nbatch = 32\n";
  const RunConfig config = parseDeck(text, "deck");
  const std::vector<LayerPlan> layers = planNetwork(config.network, {4, 12, 12}, 10);
  CostTask task = taskOf(layers, 32);
  task.program = std::make_shared<Program>(config, layers);
  const CostModel model(task, clusterOf(4), CostMode::exact);
  for (const CostStrategy strategy : all_strategies)
    checkSame(model.predict(strategy, 1), model.predict(CostStrategy::serial, 1));
  RunConfig joint = config;
  joint.strategy.kind = StrategyKind::joint;
  joint.strategy.pipeline = {};
  joint = effective(joint);
  const Partition whole = planPartition(joint, layers, 10);
  for (const int ranks : {1, 2, 4}) {
    const GridPlan grid = planGrid(joint.strategy, whole, ranks);
    CHECK(model.predict(CostStrategy::data, ranks).memory ==
          static_cast<double>(stageMemory(joint, whole, grid, 0).total()));
  }
  task.segments = 4;
  RunConfig staged = config;
  staged.strategy.stages = 2;
  const CostModel pipelined(task, clusterOf(4), CostMode::exact);
  const Partition cut = planPartition(staged, layers, 10);
  const GridPlan grid = planGrid(staged.strategy, cut, 2);
  CHECK(pipelined.predict(CostStrategy::pipeline, 2).memory ==
        static_cast<double>(
            std::max(stageMemory(staged, cut, grid, 0).total(), stageMemory(staged, cut, grid, 1).total())));
  const double filter = model.predict(CostStrategy::filter, 4).memory,
               all = model.predict(CostStrategy::serial, 1).memory;
  CHECK(filter < all);
  CHECK(model.predict(CostStrategy::grid, 4).memory < filter);
}

TEST_CASE("Hybrid strategies are those that they combine where one of them has one rank", "[cost][sweep]") {
  std::mt19937 random(2);
  struct Pair {
    CostStrategy hybrid, part;
  };
  int compared = 0;
  for (const auto& layers : networks()) {
    for (int round = 0; round < 20; ++round) {
      const double batch = std::uniform_int_distribution<int>(64, 512)(random);
      const std::int64_t ranks = std::uniform_int_distribution<int>(2, 64)(random);
      for (const CostMode mode : {CostMode::exact, CostMode::paper}) {
        const CostModel inside(taskOf(layers, batch), clusterOf(ranks), mode);
        const CostModel outside(taskOf(layers, batch), clusterOf(1), mode);
        for (const Pair& pair : {Pair{CostStrategy::data_filter, CostStrategy::filter},
                                 Pair{CostStrategy::data_spatial, CostStrategy::spatial},
                                 Pair{CostStrategy::data_grid, CostStrategy::grid}}) {
          if (!inside.has(pair.hybrid)) continue;
          checkSame(outside.predict(pair.hybrid, ranks), outside.predict(CostStrategy::data, ranks));
          if (mode == CostMode::paper && pair.hybrid == CostStrategy::data_spatial) continue; // it gathers
          const Prediction part = inside.predict(pair.part, ranks),
                           hybrid = inside.predict(pair.hybrid, ranks);
          if (!part.hasTimes() || !hybrid.hasTimes()) continue;
          checkSame(hybrid, part);
          ++compared;
        }
      }
    }
  }
  CHECK(compared > 50);
}

TEST_CASE("Collectives", "[cost]") {
  const Link link{2e-6, 1e-9, {}};
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const std::int64_t ranks = std::uniform_int_distribution<int>(1, 100)(random);
    const double bytes = std::uniform_real_distribution<double>(1, 1e8)(random);
    const double reduce = link.seconds(ringAllReduce(ranks, bytes)),
                 part = bytes / static_cast<double>(ranks);
    const Messages reduce_scatter{static_cast<double>(ranks - 1), part};
    CHECK(reduce == Approx(link.seconds(reduce_scatter) + link.seconds(ringAllGather(ranks, part))));
    const Link slow{2e-6, 2e-9, {}};
    const double startup = 2.0 * static_cast<double>(ranks - 1) * link.latency;
    CHECK(slow.seconds(ringAllReduce(ranks, bytes)) - startup == Approx(2.0 * (reduce - startup)));
    CHECK(link.seconds(ringAllReduce(ranks, bytes), 2.0) ==
          Approx(slow.seconds(ringAllReduce(ranks, bytes))));
  }
  CHECK(link.seconds(pointToPoint(1000)) == Approx(3e-6));
  CHECK(treeAllReduce(1, 8).count == 0);
  CHECK(treeAllReduce(5, 8).count == 6);
  CHECK(treeAllReduce(8, 8).count == 6);
}

TEST_CASE("Measured times of messages are interpolated", "[cost]") {
  const Link link{0.0, 0.0, {{100, 1e-6}, {10000, 1e-5}, {20000, 4e-5}}};
  CHECK(link.seconds(100) == Approx(1e-6));
  CHECK(link.seconds(10) == Approx(1e-6));
  CHECK(link.seconds(1000) == Approx(std::sqrt(1e-6 * 1e-5)));
  CHECK(link.seconds(10000) == Approx(1e-5));
  CHECK(link.seconds(40000) == Approx(8e-5));
}

TEST_CASE("A longer message time changes communication alone", "[cost]") {
  for (const auto& layers : networks()) {
    Cluster slow = clusterOf(4);
    slow.seconds_per_reduced_byte = 0.0;
    for (LinkTable::Row& row : slow.links.rows) row.link.latency = 0.0;
    const CostModel once(taskOf(layers, 64), slow, CostMode::exact);
    for (LinkTable::Row& row : slow.links.rows) row.link.seconds_per_byte *= 2.0;
    const CostModel twice(taskOf(layers, 64), slow, CostMode::exact);
    for (const CostStrategy strategy : all_strategies) {
      const Prediction a = once.predict(strategy, 4), b = twice.predict(strategy, 4);
      if (!a.hasTimes() || strategy == CostStrategy::pipeline)
        continue; // its messages overlap with computation
      CHECK(a.epoch_compute == b.epoch_compute);
      CHECK(b.epochCommunication() == Approx(2.0 * a.epochCommunication()));
    }
  }
}

TEST_CASE("A pipeline of equal stages takes what the formula says", "[cost]") {
  const PipelineStage stage{2.0, 3.0, 0.0};
  for (const PipelineSchedule schedule : schedules)
    for (int stages = 1; stages <= 6; ++stages)
      for (int segments = 1; segments <= 9; ++segments)
        CHECK(pipelineSeconds(std::vector<PipelineStage>(stages, stage), segments, scheduled(schedule)) ==
              5.0 * (stages + segments - 1));
  const auto layers = planOf("{ type = \"dense\", units = 64, repeat = 4 }, { type = \"dense\" }", {64}, 64);
  Cluster cluster = clusterOf(1);
  cluster.seconds_per_update = 0.0;
  CostTask task = taskOf(layers, 32, 3200);
  task.segments = 1;
  const CostModel paper(task, cluster, CostMode::paper);
  double longest = 0.0;
  for (const LayerTime& time : paper.times()) longest = std::max(longest, time.perSample());
  CHECK(paper.predict(CostStrategy::pipeline, 5).epoch_compute == Approx(3200 * 5 * longest));
}

TEST_CASE("Unequal stages, messages and delays of a pipeline", "[cost]") {
  // Two stages, two microbatches, messages of 0.5: F 1,1 | F 3, B 2, F 3, B 2 | B 1,1.
  const std::vector<PipelineStage> stages{{1.0, 1.0, 0.5}, {3.0, 2.0, 0.0}};
  for (const PipelineSchedule schedule : schedules)
    CHECK(pipelineSeconds(stages, 2, scheduled(schedule)) == 1.5 + 5.0 + 5.0 + 0.5 + 1.0);
  // The receivers copy the messages: 1 | copy and F 3 | the same | B 2 | B 2 | copy and B 1.
  const std::vector<PipelineStage> copied{{1.0, 1.0, 0.5, 0.5}, {3.0, 2.0, 0.0}};
  CHECK(pipelineSeconds(copied, 2, scheduled(PipelineSchedule::gpipe)) == 1.0 + 3.5 + 3.5 + 2.0 + 2.0 + 1.5);
  const auto slow_first = [](std::size_t stage, PassKind operation, std::int64_t segment) {
    return stage == 0 && operation == PassKind::forward && segment == 1 ? 9.0 : 1.0;
  };
  // The second microbatch leaves the first stage after 10 s; both backward passes follow.
  CHECK(pipelineSeconds(stages, 2, scheduled(PipelineSchedule::gpipe), {}, slow_first) ==
        10.0 + 0.5 + 5.0 + 0.5 + 1.0);
}

TEST_CASE("Ranks of a pipeline that wait leave their cores to others", "[cost]") {
  // A rank alone takes half as long. F 1 | F 1 and F 1 | F 1 | B 1 | B 1 and B 1 | B 1.
  const std::vector<PipelineStage> stages(2, PipelineStage{1.0, 1.0, 0.0});
  CHECK(pipelineSeconds(stages, 2, scheduled(PipelineSchedule::gpipe), {{0.0, 0.5, 1.0}}) ==
        0.5 + 1.0 + 0.5 + 0.5 + 1.0 + 0.5);
  // F 2 | half of F 2 during the message | the rest and F 1 | B 1 | F 1 | B 1 and half of B 2 | the rest |
  // B 2.
  const std::vector<PipelineStage> unequal{{2.0, 2.0, 0.5}, {1.0, 1.0, 0.0}};
  CHECK(pipelineSeconds(unequal, 2, scheduled(PipelineSchedule::gpipe), {{0.0, 0.5, 1.0}}) ==
        1.0 + 0.5 + 1.0 + 0.5 + 0.5 + 1.0 + 0.5 + 1.0);
}

TEST_CASE("Ranks of a pipeline that share a core take turns", "[cost]") {
  // The first rank keeps the only core for both F 1, the second one for F 2, B 2, F 2, B 2; then B 1, B 1.
  const std::vector<PipelineStage> stages{{1e-4, 1e-4, 0.5e-4}, {2e-4, 2e-4, 0.0}};
  const CoreSharing one{{}, 1};
  CHECK(pipelineSeconds(stages, 2, scheduled(PipelineSchedule::gpipe), one) == Approx(2e-4 + 8e-4 + 2e-4));
  // Turns of 3 ms: both ranks always have work, so the core is never idle.
  const std::vector<PipelineStage> longer{{1e-3, 1e-3, 0.0}, {1e-3, 1e-3, 0.0}};
  CHECK(pipelineSeconds(longer, 40, scheduled(PipelineSchedule::gpipe), one) == Approx(160e-3));
  // Passes of weeks on a slow machine: turns become longer, or the simulation would never end.
  const std::vector<PipelineStage> slow{{1e15, 1e15, 0.0}, {1e15, 1e15, 0.0}};
  CHECK(pipelineSeconds(slow, 40, scheduled(PipelineSchedule::gpipe), one) == Approx(160e15));
  // So they do for messages that take as long, copied or not.
  const std::vector<PipelineStage> copied{{1e-3, 1e-3, 1e15, 1e15}, {1e-3, 1e-3, 0.0}};
  CHECK(pipelineSeconds(copied, 2, scheduled(PipelineSchedule::one_f_one_b), one) >= 2e15);
  const std::vector<PipelineStage> sent{{1.0, 1.0, 1e18, 0.0}, {1.0, 1.0, 0.0}};
  CHECK(pipelineSeconds(sent, 2, scheduled(PipelineSchedule::one_f_one_b), one) >= 2e18);
  // A core for each rank changes nothing.
  CHECK(pipelineSeconds(stages, 2, scheduled(PipelineSchedule::gpipe), {{}, 2}) ==
        pipelineSeconds(stages, 2, scheduled(PipelineSchedule::gpipe)));
}

TEST_CASE("Ranks of a pipeline stay on their core while another one is idle", "[cost]") {
  // The first and the third rank share a core: F 1 to F 4 | F 1 to F 4, B 1 to B 4 | B 1 to B 4.
  const PipelineStage equal{1e-4, 1e-4, 0.0}, short_one{1e-12, 1e-12, 0.0};
  const std::vector<PipelineStage> stages{equal, short_one, equal};
  CHECK(pipelineSeconds(stages, 4, scheduled(PipelineSchedule::gpipe), {{}, 2}) == Approx(16e-4));
  CHECK(pipelineSeconds(stages, 4, scheduled(PipelineSchedule::gpipe)) == Approx(10e-4));
}

TEST_CASE("Plans whose ranks share cores must be faster by more", "[cost]") {
  Cluster cluster; // four ranks per node
  CHECK(cluster.worthwhile(4) == 0.98);
  cluster.node_at_once = 2;
  CHECK(cluster.worthwhile(2) == 0.98);
  CHECK(cluster.worthwhile(4) == 0.95);
}

TEST_CASE("Schedules with a larger window hide long messages", "[cost]") {
  const std::vector<PipelineStage> stages(4, PipelineStage{1.0, 2.0, 1.0});
  std::vector<double> seconds;
  for (const PipelineSchedule schedule : schedules)
    seconds.push_back(pipelineSeconds(stages, 32, scheduled(schedule)));
  const double driven = seconds[0], one_f_one_b = seconds[1], eager = seconds[2];
  CHECK(driven < 0.8 * one_f_one_b); // docs/pipeline.md measures 29 % less time
  CHECK(eager < 0.8 * one_f_one_b);
  CHECK(driven >= 3.0 * 35);
  StrategySection few = scheduled(PipelineSchedule::message_driven);
  few.pipeline.limit = 4;
  CHECK(pipelineSeconds(stages, 32, few) == Approx(one_f_one_b).epsilon(0.1));
}

namespace {

/// What part 0 of a network sends for its convolutions after the first one, forward and backward.
std::vector<PartMessage> convolutionMessages(const Network& layers, Split split, int parts) {
  RunConfig deck;
  deck.strategy.kind = StrategyKind::joint;
  deck.strategy.split = split;
  deck.strategy.parts = parts;
  const StagePlan whole = StageMaker(deck, layers).stage(0, static_cast<std::int64_t>(layers.size()), 0, 1);
  const StagePlan own = partOfStage(whole, deck.strategy, 0);
  StagePlan chosen = own;
  chosen.layers.clear();
  std::vector<const LayerPlan*> convolutions;
  for (const LayerPlan* leaf : leavesOf(layers))
    if (leaf->spec.type == "conv2d") convolutions.push_back(leaf);
  const std::string& first = convolutions.front()->place;
  for (const LayerPlan* leaf : leavesOf(own.layers)) {
    const bool of_convolution =
        std::any_of(convolutions.begin(), convolutions.end(),
                    [&](const LayerPlan* layer) { return layer->place == leaf->place; });
    if (of_convolution && leaf->place != first) chosen.layers.push_back(*leaf);
  }
  return partMessages(chosen, 0, 1, 4, true);
}

double bytesOf(const std::vector<PartMessage>& messages) {
  double sum = 0.0;
  for (const PartMessage& message : messages) sum += static_cast<double>(message.bytes);
  return sum;
}

} // namespace

TEST_CASE("Grids of channels send the published part of the bytes of filter parallelism", "[cost]") {
  struct Published {
    Network layers;
    std::vector<double> parts;
  };
  for (const Published& published : {Published{vgg16(), {.63, .46, .38, .27, .15}},
                                     Published{resnet({3, 4, 6, 3}, true), {.36, .33, .29, .22, .13}}}) {
    std::size_t which = 0;
    for (const int parts : {2, 4, 8, 16, 64}) {
      const double filter = bytesOf(convolutionMessages(published.layers, Split::filter, parts)),
                   grid = bytesOf(convolutionMessages(published.layers, Split::grid, parts));
      INFO(parts);
      CHECK(std::abs(grid / filter - published.parts[which++]) < 0.0051);
    }
  }
  CHECK(convolutionMessages(vgg16(), Split::grid, 4).size() == 48);
  CHECK(convolutionMessages(vgg16(), Split::filter, 4).size() == 108);
}

TEST_CASE("Exact mode sends what the plan of the parts sends", "[cost][parts]") {
  const auto layers =
      planOf("{ type = \"conv2d\", channels = 8, kernel = 3, padding = 1 }, { type = \"max-pool\" }, "
             "{ type = \"conv2d\", channels = 16, kernel = 3, padding = 1 }, { type = \"dense\" }",
             {3, 8, 8}, 10);
  const CostModel model(taskOf(layers, 10), clusterOf(4), CostMode::exact);
  const double y1 = 8 * 64, x2 = 8 * 16, y2 = 16 * 16, y3 = 10, x3 = y2;
  const double batch = 10 * 4; // bytes per item
  CHECK(bytesSent(model.predict(CostStrategy::filter, 4)) ==
        Approx(batch * 3 / 4 * (y1 + y2 + 2 * x2 + 2 * x3) +
               batch * (y3 - 2))); // of its parts, 3, 3, 2, 2, the second sends all but the third
  CHECK(bytesSent(model.predict(CostStrategy::channel, 4)) ==
        Approx(batch * 3 / 4 * (2 * y2 + x2 + 2 * y3 + x3)));
  // Uneven: 16 filters on 3 ranks are 6, 5 and 5, and 8 are 3, 3 and 2, 10 are 4, 3 and 3.
  const double uneven = model.predict(CostStrategy::filter, 3).epoch_compute;
  const std::vector<LayerTime>& times = model.times();
  const double update = times[0].update * 3 / 8 + times[2].update * 6 / 16 + times[3].update * 4 / 10;
  CHECK(uneven == Approx(10000 * (10 * (times[0].perSample() * 3 / 8 + times[2].perSample() * 6 / 16 +
                                        times[3].perSample() * 4 / 10) +
                                  update)));
  for (const CostStrategy strategy :
       {CostStrategy::filter, CostStrategy::channel, CostStrategy::grid, CostStrategy::spatial}) {
    const Prediction found = model.predict(strategy, 4);
    const ProgramRun run = model.runFor(found);
    double most_messages = 0.0, most_bytes = 0.0;
    for (int part = 0; part < 4; ++part) {
      const StagePlan own = partOfStage(run.partition.stages[0], run.config.strategy, part);
      const std::vector<PartMessage> sent = partMessages(own, part, 10, 4, false);
      if (bytesOf(sent) <= most_bytes) continue;
      most_bytes = bytesOf(sent);
      most_messages = static_cast<double>(sent.size());
    }
    double messages = 0.0, bytes = 0.0;
    for (const Exchange& exchange : found.exchanges) {
      if (exchange.kind == ExchangeKind::gradients) continue;
      messages += exchange.messages;
      bytes += exchange.bytes;
    }
    INFO(nameOf(strategy));
    CHECK(messages == most_messages);
    CHECK(bytes == most_bytes);
    CHECK(found.memory == run.memory());
    CHECK(found.epochSeconds() == model.predict(run).epochSeconds()); // a run says the same
  }
}

TEST_CASE("Computing hides no more than it takes, and faster processors make no step longer",
          "[cost][parts]") {
  Cluster cluster;
  cluster.node_ranks = 8;
  cluster.half_size = 128.0;
  cluster.links.rows = {{8, {7e-6, 1 / 450e9, {}}}, {1 << 20, {20e-6, 1 / 50e9, {}}}};
  std::map<std::string, Prediction> slower;
  for (const double flops : {1e12, 1e13, 3e13, 67e12, 1e14, 2e14, 3e14, 1e15, 1e16}) {
    cluster.flops = flops;
    const CostModel model(taskOf(vgg16(), 128), cluster, CostMode::exact);
    for (const CostStrategy strategy :
         {CostStrategy::data, CostStrategy::spatial, CostStrategy::filter, CostStrategy::data_spatial}) {
      const Prediction found = model.predict(strategy, 32);
      INFO(nameOf(strategy) << " at " << flops);
      double hidden = 0.0;
      for (const Exchange& exchange : found.exchanges) hidden += exchange.hidden;
      CHECK(hidden <= Approx(found.busy.passes()));
      const auto before = slower.find(nameOf(strategy));
      if (before != slower.end()) {
        constexpr double of_another_part = 1e-3; // that is now the slowest, and hides less of the sums
        CHECK(found.stepSeconds() <= (1.0 + of_another_part) * before->second.stepSeconds());
        REQUIRE(found.exchanges.size() == before->second.exchanges.size());
        for (std::size_t i = 0; i < found.exchanges.size(); ++i) {
          CHECK(found.exchanges[i].bytes == before->second.exchanges[i].bytes); // nor do they send less
          CHECK(found.exchanges[i].messages == before->second.exchanges[i].messages);
        }
      }
      slower[nameOf(strategy)] = found;
    }
  }
}

TEST_CASE("What parts copy to and from messages takes time", "[cost][parts]") {
  const auto layers = planOf(
      "{ type = \"conv2d\", channels = 8, kernel = 3, padding = 1 }, { type = \"dense\" }", {3, 8, 8}, 10);
  Cluster cluster = clusterOf(4);
  const auto computing = [&] {
    return CostModel(taskOf(layers, 10), cluster, CostMode::exact)
        .predict(CostStrategy::filter, 4)
        .epoch_compute;
  };
  const double without = computing();
  cluster.seconds_per_copied_byte = 1e-9;
  // Both outputs are gathered, and back the own channels and units of their gradients are taken.
  CHECK(computing() - without == Approx(10000 * 10 * 4 * (8 * 64 + 2 * 64 + 10 + 3) * 1e-9));
}

TEST_CASE("Thin products take longer than wide ones", "[cost]") {
  const auto layers = planOf("{ type = \"dense\", units = 64, repeat = 4 }, { type = \"dense\" }", {64}, 64);
  Cluster cluster = clusterOf(4);
  cluster.half_size = 16.0;
  for (LinkTable::Row& row : cluster.links.rows) row.link = {1e-12, 1e-18, {}};
  CostTask task = taskOf(layers, 64);
  const auto seconds = [&](const Cluster& on, std::int64_t microbatches) {
    return CostModel(task, on, CostMode::exact)
        .predict(RankChoice{CostStrategy::pipeline_1f1b, {2, 1, 1}, {}, microbatches})
        .epoch_compute;
  };
  const Cluster wide = clusterOf(4);
  CHECK(seconds(wide, 32) < seconds(wide, 4)); // a shorter pipeline at its ends
  CHECK(seconds(cluster, 32) > seconds(cluster, 4));
  const KernelTimes kernels(cluster);
  const KernelShape shape = kernelShape(layers[0]);
  const double whole = kernels.of(shape, 64, true).forward, half = kernels.of(shape, 32, true).forward;
  CHECK(half > 0.5 * whole);
  CHECK(whole == Approx(64 * 2 * 64 * 64 / 1e12 / (0.8 * 0.8 * 0.8))); // three extents of 64
}

TEST_CASE("Measured kernels are interpolated, and a measured network scales them", "[cost]") {
  const auto layers = planOf("{ type = \"dense\", units = 64 }, { type = \"dense\" }", {64}, 64);
  Cluster cluster = clusterOf(4);
  cluster.kernels = {{"dense", 8, 64, 64, 1, 1e9, 2e9}, {"dense", 128, 64, 64, 1, 8e9, 9e9}};
  const KernelTimes kernels(cluster);
  const KernelShape shape = kernelShape(layers[0]);
  CHECK(shape.rows == 1.0);
  CHECK(shape.inputs == 64.0);
  const double work = shape.forward.total(), back = (shape.weights + shape.input_gradient).total();
  CHECK(kernels.of(shape, 8, true).forward == Approx(8 * work / 1e9).epsilon(1e-6));
  CHECK(kernels.of(shape, 128, true).backward == Approx(128 * back / 9e9).epsilon(1e-6));
  CHECK(kernels.of(shape, 128, false).backward == Approx(128 * shape.weights.total() / 9e9).epsilon(1e-6));
  const double between = kernels.of(shape, 32, true).forward / (32 * work);
  CHECK(between > 1 / 8e9);
  CHECK(between < 1 / 1e9);
  CostTask task = taskOf(layers, 128, 12800);
  task.timing.seconds_per_sample = 1e-3;
  const CostModel model(task, cluster, CostMode::exact);
  const double update = 100 * (2 * 64 * 65) * 1e-10;
  CHECK(model.predict(CostStrategy::serial, 1).epoch_compute == Approx(12.8 + update));
  // Half a batch on each of two ranks is less than twice as fast.
  CHECK(model.predict(CostStrategy::data, 2).epoch_compute > 1.01 * (6.4 + update));
  // What is known about the update of this network comes before that of others.
  task.timing.seconds_per_update = 3e-10;
  CHECK(CostModel(task, cluster, CostMode::exact).predict(CostStrategy::serial, 1).epoch_compute ==
        Approx(12.8 + 3 * update));
}

TEST_CASE("Only products are faster in 16 bits, by the rates of the cluster", "[cost][half]") {
  const auto layers = planOf("{ type = \"dense\", units = 64 }, { type = \"dense\" }", {64}, 64);
  Cluster cluster = clusterOf(4);
  cluster.half_size = 16.0;
  const KernelShape shape = kernelShape(layers[0]);
  const auto forward = [&](Precision precision) {
    return KernelTimes(cluster, precision).of(shape, 64, true).forward;
  };
  const double single = forward(Precision::single);
  CHECK(forward(Precision::bf16) == single); // nothing is known
  cluster.bf16_flops = 4.0 * cluster.flops;
  cluster.fp16_flops = 0.5 * cluster.flops;
  CHECK(forward(Precision::single) == single);
  CHECK(forward(Precision::bf16) == Approx(single / 4));
  CHECK(forward(Precision::fp16) == Approx(single * 2));
  // A measured layer also moves values, which takes as long as before.
  cluster.kernels = {{"dense", 64, 64, 64, 1, 1e9, 1e9}};
  const double products = 64 * shape.forward.flops / 1e9, all = 64 * shape.forward.total() / 1e9;
  REQUIRE(all > products);
  CHECK(forward(Precision::single) == Approx(all).epsilon(1e-6));
  CHECK(forward(Precision::bf16) == Approx(all - 0.75 * products).epsilon(1e-6));
  cluster.kernels.clear();
  const auto computing = [&](const std::string& precision) {
    const RunConfig deck = parseDeck("[network]\nlayers = [{ type = \"dense\", units = 64 }, "
                                     "{ type = \"dense\" }]\n[run]\nprecision = \"" +
                                         precision + "\"\n",
                                     "deck");
    const Prediction found =
        CostModel(costTask(deck, {64}, 10, 6400), cluster, CostMode::exact).predict(CostStrategy::serial, 1);
    return found.busy.passes();
  };
  CHECK(computing("bf16") == Approx(computing("float") / 4));
  CHECK(computing("fp16") == Approx(computing("float") * 2));
}

TEST_CASE("Computing takes longer where more ranks of a node compute", "[cost]") {
  const auto layers = planOf("{ type = \"dense\", units = 64 }, { type = \"dense\" }", {64}, 64);
  Cluster cluster = clusterOf(4);
  const auto computing = [&](int ranks) {
    return CostModel(taskOf(layers, 64), cluster, CostMode::exact).predict(CostStrategy::data, ranks);
  };
  const double four = computing(4).epoch_compute, one = computing(1).epoch_compute;
  cluster.concurrency = {{1, 1.0}, {2, 1.2}, {4, 2.0}};
  CHECK(cluster.slowdown(4) == 1.0);
  CHECK(cluster.slowdown(3) == Approx(0.8));
  CHECK(cluster.slowdown(8) == 1.0); // a second node
  CHECK(computing(4).epoch_compute == Approx(four));
  CHECK(computing(1).epoch_compute == Approx(one / 2.0));
  CHECK(cluster.slowdown(0.5) == 0.5); // somebody computes
}

TEST_CASE("An epoch has as many steps as in training, which leaves out the rest", "[cost]") {
  const auto layers = planOf("{ type = \"dense\" }", {4}, 10);
  const auto steps = [&](CostMode mode, double samples) {
    return CostModel(taskOf(layers, 64, samples), clusterOf(1), mode).predict(CostStrategy::data, 2).steps;
  };
  CHECK(steps(CostMode::exact, 1000) == 15);
  CHECK(steps(CostMode::paper, 1000) == 16);
  CHECK(steps(CostMode::exact, 960) == 15);
  CHECK(steps(CostMode::exact, 10) == 1);
}

TEST_CASE("A batch per replica is that of the grid, whichever grid was chosen", "[cost]") {
  CostTask task = taskOf(
      planOf("{ type = \"dense\", repeat = 4, units = 64 }, { type = \"dense\" }", {64}, 10), 64, 6400);
  task.batch_per_replica = true;
  const CostModel model(task, clusterOf(4), CostMode::exact);
  CHECK(model.predict(CostStrategy::pipeline_1f1b, 4).batch == 64); // one stage per rank
  const RankChoice choice{CostStrategy::pipeline_1f1b, {2, 2, 1}, {}, 2};
  const Prediction chosen = model.predict(choice);
  CHECK(chosen.batch == 128);
  CHECK(chosen.steps == 50);
  CHECK(chosen.run_steps == 50 * static_cast<double>(task.program->deck().run.epochs));
  const Prediction run = model.predict(model.runFor(chosen));
  CHECK(run.batch == 128);
  checkSame(run, chosen);
  task.stages = 2;
  checkSame(CostModel(task, clusterOf(4), CostMode::exact).predict(CostStrategy::pipeline_1f1b, 4), chosen);
}

TEST_CASE("Stages that end early leave cores to others", "[cost]") {
  // The first stage has nearly all of the work.
  const auto layers = planOf("{ type = \"dense\", units = 4096 }, { type = \"dense\", units = 4 }, "
                             "{ type = \"dense\", units = 4 }, { type = \"dense\" }",
                             {4096}, 64);
  Cluster cluster = clusterOf(4);
  const auto computing = [&](CostStrategy strategy) {
    return CostModel(taskOf(layers, 64), cluster, CostMode::exact).predict(strategy, 4).epoch_compute;
  };
  const double free = computing(CostStrategy::sil_free), frozen = computing(CostStrategy::sil_frozen);
  cluster.concurrency = {{1, 1.0}, {2, 1.0}, {4, 2.0}};
  CHECK(computing(CostStrategy::sil_free) == Approx(0.5 * free).epsilon(0.02));
  CHECK(computing(CostStrategy::sil_frozen) == Approx(0.5 * frozen)); // one at a time
}

TEST_CASE("What cannot run is refused with its reason", "[cost]") {
  const CostModel vgg(taskOf(vgg16(), 256), clusterOf(4), CostMode::exact);
  const CostModel vgg_paper(taskOf(vgg16(), 256), clusterOf(4), CostMode::paper);
  const CostModel r50(taskOf(resnet({3, 4, 6, 3}, true), 256), clusterOf(4), CostMode::exact);
  const auto reason = [](const CostModel& model, CostStrategy strategy, int ranks) {
    return nameOf(model.predict(strategy, ranks).obstacle);
  };
  for (const CostModel* model : {&vgg, &vgg_paper, &r50}) {
    CHECK(reason(*model, CostStrategy::serial, 2) == "more_ranks_than_one");
    CHECK(reason(*model, CostStrategy::data, 256) == "none");
    CHECK(reason(*model, CostStrategy::data, 257) == "more_ranks_than_batch");
    CHECK(reason(*model, CostStrategy::filter, 64) == "none");
    CHECK(reason(*model, CostStrategy::filter, 65) == "more_ranks_than_filters");
    CHECK(reason(*model, CostStrategy::channel, 64) == "none");
    CHECK(reason(*model, CostStrategy::channel, 65) == "more_ranks_than_channels");
    CHECK(reason(*model, CostStrategy::pipeline, 21) == "none");
    CHECK(reason(*model, CostStrategy::pipeline, 22) == "more_ranks_than_layers");
    CHECK(reason(*model, CostStrategy::data_filter, 4 * 257) == "more_ranks_than_batch");
    CHECK(reason(*model, CostStrategy::data_filter, 6) == "parts_do_not_divide_ranks");
    if (model == &vgg_paper) continue;
    CostTask divided = model->task();
    divided.parts = 3;
    const auto staged = [&](CostStrategy strategy, std::int64_t stages) {
      divided.stages = stages;
      return reason(CostModel(divided, clusterOf(4), CostMode::exact), strategy, 4);
    };
    CHECK(staged(CostStrategy::pipeline, 0) == "parts_do_not_divide_ranks"); // nobody asked for stages
    CHECK(staged(CostStrategy::sil_relay, 0) == "parts_do_not_divide_ranks");
    CHECK(staged(CostStrategy::pipeline, 2) == "stages_do_not_divide_ranks");
    CHECK(staged(CostStrategy::sil_relay, 2) == "stages_do_not_divide_ranks");
  }
  CHECK(reason(r50, CostStrategy::grid, 64) == "none");
  CHECK(reason(r50, CostStrategy::grid, 65) == "more_ranks_than_filters");
  CHECK(reason(vgg_paper, CostStrategy::spatial, 14 * 14) == "none");
  CHECK(reason(vgg_paper, CostStrategy::spatial, 14 * 14 + 1) == "more_ranks_than_places");
  CHECK(reason(vgg, CostStrategy::spatial, 14) == "none");
  CHECK(reason(vgg, CostStrategy::spatial, 224 * 224 + 1) == "more_ranks_than_places");
  // Halos of three places: in paper mode a block of 16 x 16 / p places must not be smaller.
  const Network wide = planOf(
      "{ type = \"conv2d\", channels = 4, kernel = 7, padding = 3 }, { type = \"dense\" }", {3, 16, 16}, 10);
  const auto wide_paper = [&](CostStrategy strategy, int ranks) {
    return reason(CostModel(taskOf(wide, 8), clusterOf(ranks), CostMode::paper), strategy, ranks);
  };
  CHECK(wide_paper(CostStrategy::spatial, 28) == "none");
  CHECK(wide_paper(CostStrategy::spatial, 29) == "slab_smaller_than_halo");
  CHECK(wide_paper(CostStrategy::spatial, 257) == "more_ranks_than_places");
  CHECK(wide_paper(CostStrategy::data_spatial, 5) == "none");
  CHECK(wide_paper(CostStrategy::data_spatial, 6) == "slab_smaller_than_halo");
  CHECK(wide_paper(CostStrategy::data_spatial, 17) == "more_ranks_than_places");
  CHECK(reason(CostModel(taskOf(wide, 8), clusterOf(4), CostMode::exact), CostStrategy::spatial, 16) ==
        "none");
  // Ten rows of outputs on three ranks: windows of the last one see only padding. Any halo is possible there.
  const CostModel padded(
      taskOf(planOf("{ type = \"conv2d\", channels = 4, kernel = 1, padding = 3 }, { type = \"dense\" }",
                    {3, 4, 4}, 10),
             8),
      clusterOf(4), CostMode::exact);
  CHECK(reason(padded, CostStrategy::spatial, 2) == "none");
  CHECK(reason(padded, CostStrategy::spatial, 3) == "refused_by_train");
  CHECK(padded.predict(CostStrategy::spatial, 3).detail.find("no layer of the network can be shared") !=
        std::string::npos);
  CHECK(reason(padded, CostStrategy::spatial, 17) == "more_ranks_than_places");
  const CostModel dense(taskOf(networks().back(), 8), clusterOf(4), CostMode::exact);
  CHECK(reason(dense, CostStrategy::spatial, 2) == "nothing_to_divide");
  CHECK(reason(dense, CostStrategy::filter, 10) == "none");
  CHECK(reason(dense, CostStrategy::filter, 11) == "more_ranks_than_filters");
  Cluster small = clusterOf(4);
  small.memory = 1e9;
  const Prediction large =
      CostModel(taskOf(vgg16(), 256), small, CostMode::exact).predict(CostStrategy::data, 4);
  CHECK(nameOf(large.obstacle) == "not_enough_memory");
  CHECK(large.limiter() == "not_enough_memory");
  CHECK(std::isfinite(large.stepSeconds()));
  CHECK(std::isnan(vgg.predict(CostStrategy::data, 257).stepSeconds()));
}

TEST_CASE("Norms over replicas and rings that share cables", "[cost]") {
  const std::string norm =
      "{ type = \"conv2d\", channels = 8 }, { type = \"batch-norm\"SYNC }, { type = \"dense\" }";
  const auto predict = [&](const std::string& sync, std::int64_t cables) {
    std::string layers = norm;
    layers.replace(layers.find("SYNC"), 4, sync);
    Cluster cluster = clusterOf(4);
    cluster.node_cables = cables;
    return CostModel(taskOf(planOf(layers, {3, 8, 8}, 10), 32), cluster, CostMode::exact)
        .predict(CostStrategy::data_filter, 8);
  };
  const Prediction local = predict("", 4), synchronised = predict(", replicas = true", 4),
                   shared = predict("", 1);
  CHECK(bytesSent(synchronised) - bytesSent(local) == 2 * (9 + 8 + 17) * 4); // up and down a tree of two
  CHECK(shared.epochCommunication() > local.epochCommunication());
  CHECK(bytesSent(shared) == bytesSent(local));
}

TEST_CASE("264 predictions take less than four seconds", "[cost][speed]") {
  const std::vector<CostStrategy> six{CostStrategy::data,    CostStrategy::spatial, CostStrategy::filter,
                                      CostStrategy::channel, CostStrategy::grid,    CostStrategy::pipeline};
  const auto nets = networks();
  const auto predict = [&] {
    for (const auto& layers : nets) {
      const CostModel model(taskOf(layers, 4096), clusterOf(4), CostMode::exact);
      for (int ranks = 1; ranks <= 1024; ranks *= 2)
        for (const CostStrategy strategy : six) model.predict(strategy, ranks);
    }
  };
  // s; it takes one or two on a busy machine, where programs on the same core evict its data from caches
  constexpr double limit = 4.0;
  CHECK(computingTime(limit, predict) < limit);
}

} // namespace partita::test::plan_cost_exact
