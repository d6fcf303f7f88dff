#include "partita/plan/cost/cost_model.hpp"
#include "partita/plan/cost/cost_terms.hpp"
#include "partita/plan/cost/gradient_buckets.hpp"
#include "partita/plan/cost/refine.hpp"
#include "partita/plan/cost/stage_time.hpp"
#include "partita/plan/cost/typical.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/parts/part_traffic.hpp"
#include "partita/plan/share.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <cmath>

#include "cost_networks.hpp"
#include "support/catch.hpp"

namespace partita::test::plan_cost_program {

namespace {

const std::string convolutions =
    "{ type = \"conv2d\", channels = 16, kernel = 3, padding = 1, repeat = 4, activation = \"relu\" }, "
    "{ type = \"max-pool\" }, { type = \"dense\", units = 64, activation = \"relu\" }, { type = \"dense\" }";

RunConfig deckOf(const std::string& strategy, const std::string& layers = convolutions) {
  return parseDeck("[network]\nlayers = [" + layers + "]\n[strategy]\n" + strategy +
                       "[training]\nbatch = 64\n[run]\nepochs = 3\n",
                   "deck");
}

Cluster clusterOf(double overlap = 0.0) {
  Cluster cluster;
  cluster.node_ranks = 4;
  cluster.seconds_per_update = 1e-10;
  cluster.overlap = overlap;
  cluster.half_size = 0.0; // times are proportional to FLOPs
  return cluster;
}

CostModel modelOf(const RunConfig& deck, const Cluster& cluster = clusterOf()) {
  return {costTask(deck, {3, 16, 16}, 10, 6400), cluster, CostMode::exact};
}

Exchange exchangeOf(const Prediction& prediction, ExchangeKind kind) {
  for (const Exchange& exchange : prediction.exchanges)
    if (exchange.kind == kind) return exchange;
  return {};
}

/// Seconds of a stage with its head and labels, and of its update, at the rate of the cluster.
double secondsOf(const ProgramRun& run, int stage, double share) {
  const StagePlan& plan = run.partition.stages[stage];
  const auto parameters =
      static_cast<double>(plan.parameters() + countParameters(plan.head) + countParameters(plan.decoder));
  return share * run.partition.local[stage].flops * 1e-12 + parameters * 1e-10;
}

} // namespace

TEST_CASE("Stages with labels of their own take what their FLOPs take, heads included", "[cost]") {
  for (const std::string more : {"", "head_depth = 1\n", "reconstruct = 0.5\n", "loss = \"mse\"\n"}) {
    const RunConfig deck = deckOf("kind = \"sil\"\nstages = 2\n" + more);
    const CostModel model = modelOf(deck);
    const Program& program = *model.task().program;
    for (const int ranks : {2, 4}) {
      const ProgramRun run = program.run(ranks);
      const double share = 64.0 * 2 / ranks;
      const double slowest = std::max(secondsOf(run, 0, share), secondsOf(run, 1, share));
      const Prediction found = model.predict(run);
      INFO(more << ranks);
      CHECK(found.epoch_compute == Approx(100 * slowest).epsilon(1e-9));
      CHECK(found.memory == run.memory());
      CHECK(found.grid.replicas == ranks / 2);
    }
    CHECK(model.predict(CostStrategy::sil_relay, 2).epoch_compute ==
          model.predict(program.run(2)).epoch_compute);
  }
}

TEST_CASE("Parts share stages with labels of their own if the task has parts", "[cost][parts]") {
  const std::string deck = "kind = \"sil\"\nstages = 2\nparts = 2\nsplit = \"filter\"\n";
  for (const std::string input : {"free", "frozen", "relay"}) {
    INFO(input);
    CostTask task = modelOf(deckOf(deck + "input = \"" + input + "\"\n")).task();
    const CostStrategy strategy = costStrategy(task.program->deck().strategy);
    CHECK(nameOf(strategy) == "sil-" + input);
    const CostModel without(task, clusterOf(), CostMode::exact);
    CHECK(without.predict(strategy, 4).grid.parts == 1);
    task.parts = task.stages = 2;
    const Prediction found = CostModel(task, clusterOf(), CostMode::exact).predict(strategy, 4);
    CHECK(found.detail.empty());
    CHECK(found.grid.parts == 2);
    CHECK(found.split == Split::filter);
    CHECK(exchangeOf(found, ExchangeKind::all_gather).bytes > 0.0);
    const Prediction run = without.predict(task.program->run(4));
    CHECK(found.stepSeconds() == run.stepSeconds());
    CHECK(found.memory == run.memory);
  }
}

TEST_CASE("What stages exchange while they train", "[cost]") {
  const CostModel model = modelOf(deckOf("kind = \"sil\"\nstages = 2\ncuts = [2]\n"));
  const double message = 64 * 16 * 16 * 16 * 4;
  const Exchange relay = exchangeOf(model.predict(CostStrategy::sil_relay, 2), ExchangeKind::stage);
  CHECK(relay.bytes == message);
  CHECK(relay.seconds + relay.hidden == Approx(2e-6 + message * 1e-10));
  CHECK(relay.hidden == 0.0); // overlap = 0
  const CostModel hiding = modelOf(deckOf("kind = \"sil\"\nstages = 2\ncuts = [2]\n"), clusterOf(1.0));
  CHECK(exchangeOf(hiding.predict(CostStrategy::sil_relay, 2), ExchangeKind::stage).hidden > 0.0);
  CHECK(model.predict(CostStrategy::sil_free, 2).exchanges.empty());
  const Prediction frozen = model.predict(CostStrategy::sil_frozen, 2);
  CHECK(exchangeOf(frozen, ExchangeKind::stage).bytes == Approx(message / 3)); // once in three epochs
  RunConfig shorter = deckOf("kind = \"sil\"\nstages = 2\ncuts = [2]\n");
  shorter.run.steps = 10; // of 100 in an epoch: each batch is sent once
  CHECK(exchangeOf(modelOf(shorter).predict(CostStrategy::sil_frozen, 2), ExchangeKind::stage).bytes ==
        message);
  const ProgramRun run = model.runFor(frozen);
  CHECK(frozen.epoch_compute >= Approx(100 * (secondsOf(run, 0, 64) + secondsOf(run, 1, 64))));
}

TEST_CASE("Sums of gradients include those of heads", "[cost]") {
  const auto bytes = [](const std::string& more) {
    const CostModel model =
        modelOf(deckOf("kind = \"sil\"\nstages = 2\ncuts = [6]\n" + more)); // the first stage has the work
    return exchangeOf(model.predict(model.task().program->run(4)), ExchangeKind::gradients).bytes;
  };
  CHECK(bytes("") > bytes("loss = \"mse\"\n")); // whose stages have none
}

TEST_CASE("Sums of gradients include the zeros that pad each tensor", "[cost]") {
  const auto sums = [](const std::string& strategy) {
    const CostModel model(costTask(deckOf(strategy, "{ type = \"dense\" }"), {4}, 10, 6400), clusterOf(),
                          CostMode::exact);
    return exchangeOf(model.predict(model.task().program->run(2)), ExchangeKind::gradients);
  };
  // 40 weights and 10 biases take 64 values each; both go up and down a tree of two replicas.
  CHECK(sums("kind = \"joint\"\n").bytes == 2 * 512);
  CHECK(sums("kind = \"sil\"\nstages = 1\n").bytes == 2 * 512);
}

TEST_CASE("Half of the bytes of a sum over parts are added to own values", "[cost]") {
  Cluster adding = clusterOf();
  adding.seconds_per_reduced_byte = 1e-9;
  const Exchange without = exchangeOf(modelOf(deckOf("")).predict(CostStrategy::channel, 2),
                                      ExchangeKind::all_reduce),
                 with = exchangeOf(modelOf(deckOf(""), adding).predict(CostStrategy::channel, 2),
                                   ExchangeKind::all_reduce);
  CHECK(with.bytes > 0.0);
  CHECK(with.seconds - without.seconds == Approx(0.5 * with.bytes * 1e-9));
}

TEST_CASE("A halo copies what it sends and gets, and adds what comes back", "[cost]") {
  RunConfig deck = deckOf("split = \"spatial\"\nparts = 2\n");
  const CostModel model = modelOf(deck);
  const ProgramRun run = model.task().program->run(2);
  const StagePlan own = partOfStage(run.partition.stages.front(), run.config.strategy, 0);
  CopiedBytes expected;
  for (const LayerPlan* layer : leavesOf(own.layers)) {
    if (!layer->exchange || layer->exchange->kind != PartStep::halo) continue;
    expected.forward += 3 * 4.0 * static_cast<double>(layer->outputs());
    expected.backward += 3 * 4.0 * static_cast<double>(layer->inputs() + layer->outputs());
  }
  const CopiedBytes found = copiedBytes(own, 3, 4, false);
  CHECK(expected.forward > 0.0);
  CHECK(found.forward >= expected.forward);
  CHECK(found.backward >= expected.backward);
}

TEST_CASE("What parts of a pipeline hide does not depend on the microbatches", "[cost]") {
  Cluster cluster = clusterOf(1.0);
  cluster.links.rows = {{1 << 20, {0.0, 1e-12, {}}}}; // hidden entirely, without latency
  const auto hidden = [&](const char* count) {
    const RunConfig deck =
        deckOf("kind = \"pipeline\"\nstages = 2\ncuts = [3]\nparts = 2\nsplit = \"spatial\"\n"
               "schedule = \"1f1b\"\nmicrobatches = " +
               std::string(count) + "\n");
    const CostModel model = modelOf(deck, cluster);
    double sum = 0.0;
    for (const Exchange& exchange : model.predict(model.task().program->run(4)).exchanges)
      if (exchange.kind == ExchangeKind::halo) sum += exchange.hidden;
    return sum;
  };
  CHECK(hidden("8") > 0.0);
  CHECK(hidden("8") == Approx(hidden("4")));
}

TEST_CASE("A frozen stage waits for the outputs of a larger one in its first epoch", "[cost]") {
  const auto computing = [](std::int64_t epochs) {
    RunConfig deck =
        deckOf("kind = \"sil\"\nstages = 2\ncuts = [5]\n"); // the first stage has most of the work
    deck.run.epochs = epochs;
    return modelOf(deck).predict(CostStrategy::sil_frozen, 2).epoch_compute;
  };
  const double first = computing(1), third = computing(3), none = computing(1000000);
  CHECK(first > 1.01 * none);
  CHECK(third - none == Approx((first - none) / 3).epsilon(1e-3));
}

TEST_CASE("Activations of frozen stages cross the link before the stage", "[cost]") {
  Cluster cluster = clusterOf();
  cluster.node_ranks = 2;
  cluster.links.rows = {{2, {1e-6, 1e-10, {}}}, {1 << 20, {1e-3, 1e-9, {}}}};
  const RunConfig deck = deckOf("kind = \"sil\"\nstages = 3\ncuts = [2, 5]\n");
  const CostModel model = modelOf(deck, cluster);
  const Exchange sent = exchangeOf(model.predict(CostStrategy::sil_frozen, 3), ExchangeKind::stage);
  const double first = 64 * 16 * 16 * 16 * 4, second = first / 4; // after pooling
  CHECK(sent.seconds + sent.hidden ==
        Approx((1e-6 + 1e-10 * first + 1e-3 + 1e-9 * second) / 3)); // within a node, and between two
  CHECK(sent.hidden == 0.0);
  cluster.overlap = 1.0;
  const Exchange overlapped =
      exchangeOf(modelOf(deck, cluster).predict(CostStrategy::sil_frozen, 3), ExchangeKind::stage);
  CHECK(overlapped.hidden > 0.0);
  CHECK(overlapped.seconds + overlapped.hidden == Approx(sent.seconds));
}

TEST_CASE("Stages of 16 bits send half as much, and sum gradients in float", "[cost][half]") {
  const auto bytesOf = [](const std::string& strategy, const std::string& precision, CostStrategy plan,
                          int ranks, ExchangeKind kind) {
    RunConfig deck = deckOf(strategy);
    if (precision == "bf16") deck.run.precision = Precision::bf16;
    return exchangeOf(modelOf(deck).predict(plan, ranks), kind).bytes;
  };
  const std::string sil = "kind = \"sil\"\nstages = 2\ncuts = [2]\n", wire = "wire = \"float\"\n",
                    pipeline = "kind = \"pipeline\"\nstages = 2\ncuts = [2]\nmicrobatches = 4\n";
  for (const auto& [strategy, plan] :
       {std::pair(sil, CostStrategy::sil_relay), std::pair(sil, CostStrategy::sil_frozen),
        std::pair(pipeline, CostStrategy::pipeline_1f1b)}) {
    const double floats = bytesOf(strategy, "float", plan, 2, ExchangeKind::stage);
    CHECK(floats > 0.0);
    CHECK(bytesOf(strategy, "bf16", plan, 2, ExchangeKind::stage) == Approx(floats / 2));
    CHECK(bytesOf(strategy + wire, "bf16", plan, 2, ExchangeKind::stage) == Approx(floats));
  }
  CHECK(bytesOf("", "bf16", CostStrategy::data, 2, ExchangeKind::gradients) ==
        bytesOf("", "float", CostStrategy::data, 2, ExchangeKind::gradients));
}

TEST_CASE("Numbers of eight bytes double what is sent and announced", "[cost][parts]") {
  const auto predict = [](const RunConfig& deck, std::int64_t real_bytes, int ranks) {
    const CostModel model(costTask(deck, {3, 16, 16}, 10, 6400, {real_bytes}), clusterOf(), CostMode::exact);
    return model.predict(model.task().program->run(ranks));
  };
  const RunConfig parts = deckOf("kind = \"joint\"\nparts = 2\nsplit = \"filter\"\n"),
                  stages = deckOf("kind = \"pipeline\"\nstages = 2\ncuts = [2]\nmicrobatches = 4\n");
  for (const auto& [deck, kind] :
       {std::pair(parts, ExchangeKind::all_gather), std::pair(parts, ExchangeKind::all_reduce),
        std::pair(stages, ExchangeKind::stage)}) {
    const Prediction floats = predict(deck, 4, 2), doubles = predict(deck, 8, 2);
    CHECK(exchangeOf(floats, kind).bytes > 0.0);
    CHECK(exchangeOf(doubles, kind).bytes == 2.0 * exchangeOf(floats, kind).bytes);
    CHECK(doubles.memory > 1.5 * floats.memory);
  }
  const CostTask task = costTask(parts, {3, 16, 16}, 10, 6400);
  const ProgramRun run = task.program->run(2);
  const std::int64_t bytes = stepTraffic(run.config, run.partition, run.grid, 4).bytes;
  const std::vector<std::string> lines = trafficNotes(run.config, run.partition, run.grid, 8);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("# parts exchange " + std::to_string(2 * bytes) + " bytes in ") == 0);
}

TEST_CASE("Stages that share a rank train one after another", "[cost]") {
  const CostModel model = modelOf(deckOf("kind = \"sil\"\nstages = 4\ninput = \"free\"\n"));
  const ProgramRun run = model.task().program->run(1);
  double all = 0.0;
  for (int stage = 0; stage < 4; ++stage) all += secondsOf(run, stage, 64);
  CHECK(model.predict(run).epoch_compute == Approx(100 * all));
}

TEST_CASE("Replicas that meet every few steps send that part of the parameters", "[cost]") {
  const CostModel model = modelOf(deckOf("kind = \"local-sgd\"\nevery = 5\n"));
  const Exchange data = exchangeOf(model.predict(CostStrategy::data, 4), ExchangeKind::gradients);
  const Prediction local = model.predict(CostStrategy::local_sgd, 4);
  const Exchange met = exchangeOf(local, ExchangeKind::parameters);
  CHECK(5 * met.bytes == Approx(data.bytes));
  // All values are ready when ranks meet, so more latencies pass at the same time than in a backward pass.
  CHECK(5 * met.seconds < data.seconds);
  CHECK(5 * met.seconds > 0.7 * data.seconds);
  Cluster copying = clusterOf();
  copying.seconds_per_copied_byte = 1e-10;
  const ProgramRun run = model.task().program->run(1);
  const auto values = static_cast<double>(run.partition.stages.front().storedValues());
  const Prediction copied =
      modelOf(deckOf("kind = \"local-sgd\"\nevery = 5\n"), copying).predict(CostStrategy::local_sgd, 4);
  CHECK(local.epoch_compute == Approx(model.predict(CostStrategy::data, 4).epoch_compute));
  CHECK(copied.epoch_compute - local.epoch_compute == Approx(100 * values * (7 * 4 / 2.0) * 1e-10 / 5));
  CHECK(local.memory == model.task().program->run(4).memory());
  const std::string nesterov = "kind = \"local-sgd\"\nevery = 5\nouter = \"nesterov\"\n";
  CHECK(modelOf(deckOf(nesterov), copying).predict(CostStrategy::local_sgd, 4).epoch_compute -
            local.epoch_compute ==
        Approx(100 * values * (9 * 4 / 2.0) * 1e-10 / 5));
  const auto statistics = [&](const std::string& strategy, CostStrategy kind) {
    const CostModel with =
        modelOf(deckOf(strategy, "{ type = \"conv2d\", channels = 8 }, { type = \"batch-norm\" }, "
                                 "{ type = \"dense\" }"));
    return exchangeOf(with.predict(kind, 4), ExchangeKind::norm).bytes;
  };
  const double each_step = statistics("", CostStrategy::data);
  CHECK(each_step > 0.0);
  CHECK(5 * statistics("kind = \"local-sgd\"\nevery = 5\n", CostStrategy::local_sgd) == Approx(each_step));
  const CostModel norms =
      modelOf(deckOf("", "{ type = \"conv2d\", channels = 8 }, { type = \"batch-norm\", replicas = true }, "
                         "{ type = \"dense\" }"));
  const Prediction refused = norms.predict(CostStrategy::local_sgd, 2);
  CHECK(nameOf(refused.obstacle) == "refused_by_train");
  CHECK(refused.detail.find("needs all replicas in every step") != std::string::npos);
}

TEST_CASE("Replicas also meet in the warm-up and after the last step", "[cost]") {
  const auto meetings = [](std::int64_t every, std::int64_t warm_up, std::int64_t steps) {
    double count = 0.0;
    for (std::int64_t step = 1; step <= steps; ++step)
      if (step <= warm_up || step % every == 0 || step == steps) ++count;
    return count / static_cast<double>(steps);
  };
  for (const std::int64_t every : {1, 4, 7, 1000})
    for (const std::int64_t warm_up : {0, 3, 7, 8, 100, 5000})
      for (const std::int64_t steps : {1, 7, 28, 101, 300}) {
        INFO(every << ", " << warm_up << ", " << steps);
        CHECK(Meetings{every, 0.0, warm_up}.perStep(static_cast<double>(steps)) ==
              Approx(meetings(every, warm_up, steps)));
      }
  CHECK(Meetings{8, 0.0, 100}.perStep(0.0) == Approx(0.125));

  const auto sums = [](const std::string& more) {
    const CostModel model = modelOf(deckOf("kind = \"local-sgd\"\n" + more));
    return exchangeOf(model.predict(CostStrategy::local_sgd, 4), ExchangeKind::parameters).bytes;
  };
  const double each_step = sums("every = 1\n"); // of 300
  CHECK(sums("every = 100\nwarmup_steps = 150\n") == Approx(each_step * 152 / 300));
  CHECK(sums("every = 1000\n") == Approx(each_step / 300));
}

TEST_CASE("Pipelines of all schedules", "[cost]") {
  const CostModel model = modelOf(deckOf("kind = \"pipeline\"\nmicrobatches = 8\nschedule = \"1f1b\"\n"));
  const auto of = [&](CostStrategy strategy) { return model.predict(strategy, 4); };
  CHECK(of(CostStrategy::pipeline).epochSeconds() == of(CostStrategy::pipeline_1f1b).epochSeconds());
  CHECK(of(CostStrategy::pipeline).microbatches == 8);
  CHECK(of(CostStrategy::pipeline_1f1b).memory < of(CostStrategy::pipeline_1f1b_eager).memory);
  CHECK(of(CostStrategy::pipeline_1f1b_eager).memory < of(CostStrategy::pipeline_gpipe).memory);
  CostTask task = model.task();
  task.stages = 2;
  const CostModel halves(task, clusterOf(), CostMode::exact);
  const Prediction replicated = halves.predict(CostStrategy::pipeline, 4);
  CHECK(replicated.grid.replicas == 2);
  CHECK(exchangeOf(replicated, ExchangeKind::gradients).seconds > 0.0);
  CHECK(nameOf(halves.predict(CostStrategy::pipeline, 3).obstacle) == "stages_do_not_divide_ranks");
  CHECK(nameOf(halves.predict(CostStrategy::sil_relay, 1).obstacle) == "stages_do_not_divide_ranks");
}

TEST_CASE("Microbatches of fewer samples take less time and send less", "[cost][parts]") {
  Cluster cluster = clusterOf();
  cluster.seconds_per_update = 0.0;
  const auto modelFor = [&](std::int64_t batch, const std::string& strategy) {
    RunConfig deck = deckOf(strategy + "microbatches = 24\n");
    deck.training.batch = batch;
    return modelOf(deck, cluster);
  };
  const auto predict = [&](std::int64_t batch, const std::string& strategy, int ranks) {
    const CostModel model = modelFor(batch, strategy);
    return model.predict(model.task().program->run(ranks));
  };
  // Of 24 microbatches, 16 have one of the 32 samples and 8 have two.
  const std::string pipeline = "kind = \"pipeline\"\nstages = 2\ncuts = [2]\nschedule = \"1f1b\"\n";
  const Prediction staged = predict(32, pipeline, 2);
  CHECK(staged.microbatches == 24);
  CHECK(exchangeOf(staged, ExchangeKind::stage).bytes == 32 * 16 * 16 * 16 * 4);
  CHECK(staged.stepSeconds() < 0.9 * predict(48, pipeline, 2).stepSeconds());
  for (const std::string strategy : {"kind = \"joint\"\n", "kind = \"local-sgd\"\nevery = 5\n"}) {
    const auto computing = [&](std::int64_t batch) { return predict(batch, strategy, 1).busySeconds(); };
    CHECK(computing(32) == Approx(computing(48) * 32 / 48));
  }
  const CostModel model = modelFor(32, "kind = \"joint\"\nparts = 2\nsplit = \"filter\"\n");
  const ProgramRun run = model.task().program->run(2);
  double bytes = 0.0;
  for (const Exchange& exchange : model.predict(run).exchanges) bytes += exchange.bytes;
  std::vector<double> sent;
  for (int part = 0; part < 2; ++part) {
    const StagePlan own = partOfStage(run.partition.stages[0], run.config.strategy, part);
    PartTraffic all;
    for (std::int64_t i = 0; i < 24; ++i) all += partTraffic(own, part, shareOf(32, i, 24).size(), 4, false);
    sent.push_back(static_cast<double>(all.bytes));
  }
  CHECK(std::find(sent.begin(), sent.end(), bytes) != sent.end());
}

TEST_CASE("Sums of gradients are hidden behind the passes", "[cost]") {
  const auto second = [](double) { return SumTime{1.0, 0.0}; };
  const std::vector<GradientLayer> two(2, {1.0, 2.0, 1e5}), four(4, {1.0, 2.0, 1e5});
  // Ready after 2 and 4 s of the backward pass, complete after 3 and 5.
  const Exchange whole = gradientExchange(two, {1e5, false}, 2, 1.0, second);
  CHECK(whole.seconds == 1.0);
  CHECK(whole.hidden == 1.0);
  CHECK(whole.messages == 2 * 2);
  CHECK(whole.bytes == 2e5);
  CHECK(gradientExchange(two, {1e6, false}, 2, 1.0, second).hidden == 0.0); // a single bucket
  const std::vector<GradientLayer> small{{1.0, 2.0, 1e4}};                  // by a tree
  CHECK(gradientExchange(small, {1e4, false}, 8, 1.0, second).messages == 2 * 3);
  CHECK(gradientExchange(small, {1e4, false}, 8, 1.0, second).bytes == 6e4);
  CHECK(gradientExchange(two, {1e5, false}, 2, 0.25, second).hidden == 0.25);
  CHECK(gradientExchange(two, {1e5, false}, 1, 1.0, second).messages == 0.0);
  // Late: the third bucket, of the second layer, follows that of the first layer, which is complete after
  // 9 s. The backward pass takes 8 s.
  const Exchange late = gradientExchange(four, {1e5, true}, 2, 1.0, second);
  CHECK(late.seconds == 1.0);
  CHECK(late.hidden == 3.0);
  const auto slow = [](double) { return SumTime{4.0, 0.0}; };
  // 2-6, 6-10, 10-14 first layer, 14-18 second layer: waits 14 - 8 and 18 - 15.
  CHECK(gradientExchange(four, {1e5, true}, 2, 1.0, slow).seconds == 9.0);
  CHECK(gradientExchange(four, {1e5, false}, 2, 1.0, slow).seconds == 10.0);
  CHECK(gradientExchange({{1.0, 2.0, 6400.0}}, {1.0, false}, 2, 1.0, second).messages == 2 * 64);
  // Latencies of up to 8 sums pass at the same time; the ninth waits for the first one.
  const std::vector<GradientLayer> sixteen{{0.0, 0.0, 1.6e6}};
  const auto distant = [](double) { return SumTime{1.0, 20.0}; };
  CHECK(gradientExchange(sixteen, {1e5, false}, 2, 1.0, distant).seconds == 21.0 + 7.0 + 21.0);
}

TEST_CASE("Stages sum the statistics of their norms over replicas at the same time", "[cost]") {
  const std::string convolution = "{ type = \"conv2d\", channels = 8, kernel = 3, padding = 1 }, ",
                    layers = convolution + "{ type = \"batch-norm\"SYNC }, " + convolution +
                             "{ type = \"batch-norm\"SYNC }, { type = \"dense\" }";
  const auto norms = [&](const std::string& sync, const std::string& strategy, int ranks) {
    std::string text = layers;
    for (std::size_t at = text.find("SYNC"); at != std::string::npos; at = text.find("SYNC"))
      text.replace(at, 4, sync);
    const CostModel model = modelOf(deckOf(strategy, text));
    return exchangeOf(model.predict(model.task().program->run(ranks)), ExchangeKind::norm);
  };
  // Up and down a tree of two replicas: means and squares, gradients of both; the running statistics.
  const double sums = 2 * (9 + 8 + 17) * 4, average = 2 * 16 * 4;
  const std::string joint = "kind = \"joint\"\n", all = ", replicas = true";
  CHECK(norms("", joint, 2).bytes == 2 * average);
  CHECK(norms(all, joint, 2).bytes == 2 * (sums + average));
  CHECK(norms(all, joint, 2).messages == 2 * (2 * 3 + 1));
  const std::string pipeline = "kind = \"pipeline\"\nstages = 2\ncuts = [2]\nmicrobatches = 4\n"
                               "schedule = \"1f1b\"\nreplicas = 2\n";
  CHECK(norms(all, pipeline, 4).bytes == 4 * sums + average);
}

TEST_CASE("The slowest message between stages decides whether it leaves the node", "[cost]") {
  Cluster cluster = clusterOf();
  cluster.links.rows = {{4, {1e-6, 1e-10, {}}}, {1 << 20, {1e-3, 1e-9, {}}}};
  CHECK(cluster.linkAfter(0, 4, 2).latency == 1e-6); // ranks 0-1 and 4-5
  CHECK(cluster.linkAfter(0, 3, 1).latency == 1e-6); // ranks 0-1
  CHECK(cluster.linkAfter(0, 3, 4).latency == 1e-3); // ranks 3-4
  CHECK(cluster.linkAfter(1, 3, 1).latency == 1e-6);
  CHECK(cluster.linkAfter(3, 8, 1).latency == 1e-3);
}

TEST_CASE("Parts of hybrid strategies share a node, and replicas span nodes", "[cost][parts]") {
  Cluster cluster = clusterOf();
  cluster.links.rows = {{4, {1e-6, 1e-10, {}}}, {1 << 20, {1e-3, 1e-9, {}}}};
  const CostModel model = modelOf(deckOf(""), cluster);
  const Prediction hybrid = model.predict(CostStrategy::data_filter, 8);
  CHECK(hybrid.grid.replicas == 2);
  CHECK(hybrid.grid.parts == 4);
  const Exchange gather = exchangeOf(hybrid, ExchangeKind::all_gather),
                 gradients = exchangeOf(hybrid, ExchangeKind::gradients);
  CHECK(gather.messages > 0.0);
  CHECK(gather.seconds == Approx(gather.messages * 1e-6 + gather.bytes * 1e-10));
  CHECK(gradients.seconds > 4.0 * gradients.bytes * 1e-9); // all ranks of a node send at once
}

TEST_CASE("Flows on the most loaded cable", "[cost]") {
  Cluster cluster = clusterOf();
  cluster.links.rows = {{2, {1.0, 0.0, {}}}, {4, {2.0, 0.0, {}}}, {64, {3.0, 0.0, {}}}};
  const auto path = [&](std::int64_t ranks, std::int64_t size, std::int64_t stride) {
    const RingPath found = ringPath(cluster, ranks, size, stride);
    return std::pair<double, double>{found.flows, found.link.latency};
  };
  CHECK(path(8, 8, 1) == std::pair<double, double>{1.0, 3.0}); // one ring over two nodes of four ranks
  CHECK(path(8, 2, 4) == std::pair<double, double>{4.0, 3.0}); // rank i and i + 4
  CHECK(path(8, 2, 1) == std::pair<double, double>{1.0, 1.0}); // inside nodes
  CHECK(path(4, 2, 2) == std::pair<double, double>{1.0, 1.0});
  CHECK(path(16, 4, 4) == std::pair<double, double>{4.0, 3.0});
  CHECK(path(6, 2, 3) == std::pair<double, double>{2.0, 3.0}); // 0-3 inside, 1-4 and 2-5 across
  cluster.node_cables = 2;
  CHECK(path(8, 2, 4).first == 2.0);
}

TEST_CASE("What counts of several values does not depend on their order", "[cost]") {
  CHECK(typical(Typical::lower_quartile, {7.0}) == 7.0);
  CHECK(typical(Typical::lower_quartile, {4.0, 1.0, 3.0, 2.0}) == 1.0);
  CHECK(typical(Typical::lower_quartile, {4.0, 1.0, 5.0, 3.0, 2.0}) == 2.0);
  CHECK(typical(Typical::median, {3.0, 9.0, 1.0}) == 3.0);
  CHECK(typical(Typical::median, {4.0, 9.0, 1.0, 2.0}) == 3.0);
  CHECK(typical(Typical::mean, {4.0, 9.0, 1.0, 2.0}) == 4.0);
  CHECK_THROWS_AS(typical(Typical::median, {}), std::logic_error);
}

TEST_CASE("Runs refine a description until its predictions agree", "[cost]") {
  const RunConfig deck = deckOf("bucket_kib = 4\n");
  Cluster truth = clusterOf(0.5), cluster = clusterOf(1.0);
  truth.flops = 4e11;
  const CostModel model = modelOf(deck, truth);
  // What is known about its update is kept, and no part of the seconds per sample.
  NetworkTiming known;
  known.parameters = model.task().program->parameters();
  known.seconds_per_update = truth.seconds_per_update;
  cluster.networks.push_back(known);
  const auto evidenceOf = [&](int ranks, double waits) {
    RunEvidence evidence{model.task(), model.task().program->run(ranks)};
    const Prediction measured = model.predict(evidence.run);
    evidence.compute = measured.busySeconds();
    evidence.sums = waits * exchangeOf(measured, ExchangeKind::gradients).seconds;
    return evidence;
  };
  const std::vector<std::string> lines = refine(cluster, {evidenceOf(4, 1.0)});
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].find("seconds per sample") != std::string::npos);
  CHECK(lines[1] == "overlap: 1 -> 0.5, from 1 run");
  CostTask task = model.task();
  task.timing = cluster.timing("", task.program->parameters());
  CHECK(cluster.networks.size() == 1);
  // Decks with the same network, and a row that does not say how large its network is.
  Cluster several = truth;
  several.networks = {known, known, {"deck", 1.0}};
  several.networks[0].deck = "one";
  several.networks[1].deck = "other";
  refine(several, {evidenceOf(4, 1.0)});
  CHECK(several.networks.size() == 3);
  for (const char* deck : {"", "one", "other", "deck"})
    CHECK(several.timing(deck, known.parameters).seconds_per_sample ==
          Approx(task.timing.seconds_per_sample));
  const Prediction refined = CostModel(task, cluster, CostMode::exact).predict(CostStrategy::data, 4);
  const Prediction wanted = model.predict(CostStrategy::data, 4);
  CHECK(refined.epoch_compute == Approx(wanted.epoch_compute));
  CHECK(refined.epochCommunication() == Approx(wanted.epochCommunication()));
  // Less waiting than if all were hidden that can be: messages are faster. The median of three counts.
  cluster = truth;
  cluster.overlap = 1.0;
  const double bandwidth = cluster.links.rows[0].link.seconds_per_byte;
  const std::vector<std::string> faster =
      refine(cluster, {evidenceOf(4, 0.01), evidenceOf(4, 0.01), evidenceOf(1, 1.0)});
  CHECK(faster.back().find("time of messages, relative: 1 -> ") == 0);
  CHECK(faster.back().find("from 2 runs") != std::string::npos);
  CHECK(cluster.links.rows[0].link.seconds_per_byte < bandwidth);
}

TEST_CASE("The order of the runs does not change what they refine", "[cost]") {
  Cluster truth = clusterOf(), assumed = clusterOf();
  assumed.half_size = 16.0; // samples: assumed times depend on the batch, measured ones do not
  const auto evidenceOf = [&](std::int64_t batch) {
    RunConfig deck = deckOf("");
    deck.training.batch = batch;
    const CostModel model = modelOf(deck, truth);
    RunEvidence evidence{model.task(), model.task().program->run(1)};
    evidence.compute = model.predict(evidence.run).busySeconds();
    return evidence;
  };
  Cluster one = assumed, other = assumed;
  refine(one, {evidenceOf(16), evidenceOf(3200)});
  refine(other, {evidenceOf(3200), evidenceOf(16)});
  REQUIRE(one.networks.size() == 1);
  REQUIRE(other.networks.size() == 1);
  CHECK(one.networks[0].seconds_per_sample == Approx(other.networks[0].seconds_per_sample));
  const CostModel model = modelOf(deckOf(""), truth);
  double seconds = 0.0;
  for (const LayerTime& time : model.times()) seconds += time.perSample();
  CHECK(one.networks[0].seconds_per_sample == Approx(seconds).epsilon(0.01));
}

TEST_CASE("Other images of a network scale its time, and runs on them get a row of their own", "[cost]") {
  const std::string layers = "{ type = \"conv2d\", channels = 8, kernel = 3, padding = 1 }, "
                             "{ type = \"global-average-pool\" }, { type = \"dense\" }";
  const auto taskOf = [&](std::int64_t extent, Precision precision = Precision::single) {
    RunConfig deck = deckOf("", layers);
    deck.run.precision = precision;
    return costTask(deck, {3, extent, extent}, 10, 6400);
  };
  Cluster cluster = clusterOf();
  cluster.networks.push_back(networkOf(taskOf(16)));
  cluster.networks[0].seconds_per_sample = 1e-3;
  const NetworkTiming small = networkOf(taskOf(16)), large = networkOf(taskOf(32));
  CHECK(small.parameters == large.parameters);
  CHECK(large.flops_per_sample > 3.9 * small.flops_per_sample);
  CHECK(timingOf(taskOf(16), cluster).seconds_per_sample == 1e-3);
  CHECK(timingOf(taskOf(32), cluster).seconds_per_sample ==
        Approx(1e-3 * large.flops_per_sample / small.flops_per_sample));
  CHECK(timingOf(taskOf(16, Precision::bf16), cluster).seconds_per_sample == 0.0);
  const auto evidenceOf = [&](const CostTask& task) {
    RunEvidence evidence{task, task.program->run(1)};
    evidence.compute = 64 * 7e-3; // per step
    return evidence;
  };
  refine(cluster, {evidenceOf(taskOf(32)), evidenceOf(taskOf(16, Precision::bf16))});
  REQUIRE(cluster.networks.size() == 3);
  CHECK(cluster.networks[0].seconds_per_sample == 1e-3);
  CHECK(timingOf(taskOf(32), cluster).seconds_per_sample == Approx(7e-3).epsilon(0.01));
  CHECK(timingOf(taskOf(16, Precision::bf16), cluster).seconds_per_sample == Approx(7e-3).epsilon(0.01));
}

TEST_CASE("A run with parts costs what its parts compute and send", "[cost][parts]") {
  for (const char* split : {"filter", "channel", "grid", "spatial"}) {
    for (const int parts : {2, 4}) {
      INFO(split << ", " << parts << " parts");
      const std::string section =
          "kind = \"joint\"\nsplit = \"" + std::string(split) + "\"\nparts = " + std::to_string(parts) + "\n";
      const CostModel model =
          modelOf(deckOf(section, "{ type = \"conv2d\", channels = 8, kernel = 3, padding = 1 }, "
                                  "{ type = \"conv2d\", channels = 8, kernel = 3, padding = 1 }, "
                                  "{ type = \"dense\" }"));
      const ProgramRun run = model.task().program->run(parts);
      const Prediction found = model.predict(run), one = model.predict(CostStrategy::serial, 1);
      CHECK(found.grid.parts == parts);
      CHECK(found.memory == run.memory());
      double bytes = 0.0;
      for (const Exchange& exchange : found.exchanges)
        if (exchange.kind != ExchangeKind::gradients) bytes += exchange.bytes;
      std::vector<double> sent;
      for (int part = 0; part < parts; ++part)
        sent.push_back(
            static_cast<double>(partTraffic(partOfStage(run.partition.stages[0], run.config.strategy, part),
                                            part, run.config.training.batch, 4, false)
                                    .bytes));
      CHECK(std::find(sent.begin(), sent.end(), bytes) != sent.end());
      CHECK(found.epoch_compute < one.epoch_compute);
      CHECK(found.epoch_compute > one.epoch_compute / parts - 1e-12);
    }
  }
}

/// Two parts of two dense layers divided by output: each adds up the gradient of the second layer's input.
/// Its first half travels while the layer computes the gradient of its weights, 5 of 10 units on each part.
TEST_CASE("What travels while a layer computes the gradients of its parameters is hidden", "[cost][parts]") {
  constexpr double units = 64.0, batch = 64.0;
  const RunConfig deck = deckOf("kind = \"joint\"\nsplit = \"filter\"\nparts = 2\n",
                                "{ type = \"dense\", units = 64 }, { type = \"dense\" }");
  for (const double overlap : {0.0, 0.5, 1.0}) {
    for (const double flops : {1e9, 1e12}) {
      Cluster cluster = clusterOf(overlap);
      cluster.flops = flops;
      const CostModel model = modelOf(deck, cluster);
      const Exchange sums = exchangeOf(model.predict(model.task().program->run(2)), ExchangeKind::all_reduce);
      const double message = cluster.links.of(2).seconds(4.0 * batch * units / 2.0),
                   weights = batch * 2.0 * units * 5.0 / flops;
      INFO(overlap << ", " << flops);
      CHECK((weights > message) == (flops < 1e10));
      CHECK(sums.messages == 2.0);
      CHECK(sums.hidden == Approx(overlap * std::min(message, weights)));
      CHECK(sums.seconds == Approx(2.0 * message - sums.hidden));
    }
  }
}

/// The halos of both neighbours travel together.
TEST_CASE("Halos of gradients are hidden behind one another's layer only once", "[cost][parts]") {
  const RunConfig deck = deckOf("kind = \"joint\"\nsplit = \"spatial\"\nparts = 4\nparts_grid = [4, 1]\n",
                                "{ type = \"conv2d\", channels = 16, kernel = 3, padding = 1, repeat = 2 }, "
                                "{ type = \"dense\" }");
  for (const double flops : {1e9, 1e14}) {
    Cluster cluster = clusterOf(1.0);
    cluster.flops = flops;
    const CostModel model = modelOf(deck, cluster);
    const Exchange halos = exchangeOf(model.predict(model.task().program->run(4)), ExchangeKind::halo);
    // An inner part has two neighbours: it sends a row of 16 places to each, of 3 and of 16 channels forward,
    // of 16 channels back. The second layer has 4 x 16 places, with 9 x 16 weights each for 16 channels.
    const double first = cluster.links.of(4).seconds(4.0 * 64 * 16 * 3),
                 second = cluster.links.of(4).seconds(4.0 * 64 * 16 * 16),
                 weights = 64 * 2.0 * 64 * 16 * 16 * 9 / flops;
    INFO(flops);
    CHECK((weights > 2.0 * second) == (flops < 1e10));
    CHECK(halos.messages == 6.0);
    CHECK(halos.hidden == Approx(std::min(2.0 * second, weights)));
    CHECK(halos.seconds == Approx(2.0 * first + 4.0 * second - halos.hidden));
  }
}

TEST_CASE("Runs that wait longer than unhidden messages take make messages slower", "[cost]") {
  Cluster cluster = clusterOf(1.0);
  const CostModel model = modelOf(deckOf("bucket_kib = 4\n"), cluster);
  RunEvidence evidence{model.task(), model.task().program->run(4)};
  const Prediction predicted = model.predict(evidence.run);
  const Exchange sums = exchangeOf(predicted, ExchangeKind::gradients);
  REQUIRE(sums.hidden > 0.0);
  evidence.compute = predicted.busySeconds();
  evidence.sums = 3.0 * (sums.seconds + sums.hidden);
  refine(cluster, {evidence});
  CHECK(cluster.overlap == 0.0);
  CHECK(exchangeOf(CostModel(model.task(), cluster, CostMode::exact).predict(evidence.run),
                   ExchangeKind::gradients)
            .seconds == Approx(evidence.sums));
}

TEST_CASE("Runs that wait less than messages allow make them faster, within reason", "[cost]") {
  Cluster cluster = clusterOf(0.5);
  const CostModel model = modelOf(deckOf("bucket_kib = 4\n"), cluster);
  RunEvidence evidence{model.task(), model.task().program->run(4)};
  const auto sumsOf = [&](Cluster described, double overlap) {
    described.overlap = overlap;
    const CostModel own(model.task(), described, CostMode::exact);
    return exchangeOf(own.predict(evidence.run), ExchangeKind::gradients).seconds;
  };
  evidence.compute = model.predict(evidence.run).busySeconds();
  evidence.sums = 0.7 * sumsOf(cluster, 1.0);
  REQUIRE(evidence.sums > 0.0);
  refine(cluster, {evidence});
  CHECK(cluster.overlap == 1.0);
  CHECK(sumsOf(cluster, 1.0) == Approx(evidence.sums));
  // Additions that alone take longer are not the fault of messages.
  Cluster adding = clusterOf(0.5), silent = adding;
  adding.seconds_per_reduced_byte = silent.seconds_per_reduced_byte = 1e-7;
  silent.links.rows[0].link = {0.0, 0.0, {}};
  evidence.sums = 0.5 * sumsOf(silent, 1.0);
  const double before = sumsOf(adding, 1.0), bandwidth = adding.links.rows[0].link.seconds_per_byte;
  REQUIRE(before > 2.0 * evidence.sums);
  refine(adding, {evidence});
  CHECK(adding.links.rows[0].link.seconds_per_byte == Approx(bandwidth * evidence.sums / before));
}

} // namespace partita::test::plan_cost_program
