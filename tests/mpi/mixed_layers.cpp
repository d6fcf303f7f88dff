#include "partita/strategy/stage_updater.hpp"

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "small_run.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"

namespace partita::test::mixed_layers {

/// 16-bit numbers in layers that share weights or keep running statistics, in whole runs.

namespace {

/// Batch norms alone, in a group, and with a repeated forward pass.
const Overrides images{R"(network/layers=[{ type = "conv2d", channels = 4, kernel = 3, bias = false },
  { type = "block", layers = [{ type = "batch-norm", activation = "relu" }, { type = "max-pool" }] },
  { type = "residual", recompute = true, layers = [
    { type = "conv2d", channels = 4, kernel = 3, padding = 1 }, { type = "batch-norm" }] },
  { type = "group-norm", groups = 2 }, { type = "dense", units = 16 }, { type = "batch-norm", activation = "relu" }, { type = "dense" }])"};

const Overrides tokens{"data/kind=grammar", "data/classes=0", "data/sequence=12"};

/// A tied head.
const Overrides gpt = tokens + Overrides{R"(network/layers=[
  { type = "embedding", width = 16, positions = true },
  { type = "block", repeat = 2, layers = [
    { type = "residual", layers = [{ type = "layer-norm" }, { type = "attention", heads = 2 }] },
    { type = "residual", layers = [
      { type = "rms-norm" }, { type = "dense", units = 32, activation = "gelu" },
      { type = "dense", units = 16 }] }] },
  { type = "layer-norm" }, { type = "dense", tied = true, bias = false }])"};

/// A tied layer near the front, so that other layers can be on other ranks.
const Overrides tied_in_front = tokens + Overrides{R"(network/layers=[{ type = "embedding", width = 16 },
  { type = "dense", units = 30, tied = true, activation = "gelu" },
  { type = "dense", units = 24, activation = "relu" }, { type = "dense" }])"};

/// Begins with a loss scale that may be too large for fp16, and checks what each skipped step has changed.
class OverflowWatch : public StepControl {
 public:
  explicit OverflowWatch(double scale = LossScale::most) : _scale(scale) {}
  void begin(StageUpdater& updater) override {
    updater.resume(0, {0.0, _scale, 0.0});
    _last[&updater] = stateOf(updater);
  }
  bool afterStep(const ExecSpace& space, const Position&,
                 const std::vector<StageUpdater*>& updaters) override {
    for (StageUpdater* updater : updaters) {
      updater->finishUpdate(space); // until then only a device may know
      if (!std::isfinite(updater->local().score.peek(space).loss)) FAIL("loss");
      const State now = stateOf(*updater), before = _last[updater];
      const bool was_taken = now.steps > before.steps;
      if (was_taken != (now.parameters != before.parameters)) FAIL("parameters");
      if (!now.statistics.empty() && was_taken != (now.statistics != before.statistics)) FAIL("statistics");
      (was_taken ? taken : left_out) += 1;
      _last[updater] = now;
    }
    return false;
  }
  int taken = 0, left_out = 0;

 private:
  struct State {
    std::vector<Real> parameters, statistics;
    std::int64_t steps = 0;
  };
  static State stateOf(StageUpdater& updater) {
    const Stage& stage = updater.local().stage;
    return {stage.masters().values(ExecSpace()), StoredVector(stage.statistics()).values(ExecSpace()),
            updater.optimiser().steps()};
  }
  double _scale;
  std::map<const StageUpdater*, State> _last;
};

/// Makes one sample so large that the output of the first layer overflows in fp16, or infinite.
void spoilOneSample(Samples& samples, float value = 1e9F) {
  const std::size_t width = samples.width();
  std::vector<float> values(samples.rows() * width);
  for (std::size_t row = 0; row < samples.rows(); ++row)
    samples.copyRow(row, {0.0F}, {1.0F}, values.data() + row * width);
  std::fill_n(values.begin(), std::min(width, values.size()), value);
  if (!values.empty()) samples = Samples(width, std::move(values));
}

/// The hash after a run in which each rank has watched its steps; fp16 skips some of them.
std::string watchedHash(int ranks, const Overrides& deck, bool overflows) {
  SmallRun run(groupOf(ranks), smallDeck(deck));
  OverflowWatch watch;
  run.train(watch);
  CHECK(watch.taken > 0);
  CHECK((watch.left_out > 0) == overflows);
  return run.hash();
}

const Overrides placements[] = {
    {"optimiser/offload=host", "optimiser/offload_bucket=500"},
    {"optimiser/offload=file", "optimiser/offload_bucket=999",
     "optimiser/offload_directory=" + std::filesystem::temp_directory_path().string()}};

} // namespace

TEST_CASE("Statistics and tied weights of 16 bits have the same bits on any ranks", "[mixed][sweep]") {
  for (const Overrides& network : {images, tied_in_front}) {
    for (const std::string& precision : Overrides{"bf16", "fp16"}) {
      const bool overflows = precision == "fp16";
      const Overrides deck =
          network + Overrides{"run/precision=" + precision, "run/steps=24", "strategy/microbatches=3"};
      const std::string expected = watchedHash(1, deck + Overrides{"strategy/kind=joint"}, overflows);
      for (const Overrides& placement : placements)
        CHECK(watchedHash(1, deck + placement + Overrides{"strategy/kind=joint"}, overflows) == expected);
      for (int stages = 2; stages <= std::min(3, everyone().size()); ++stages) {
        const Overrides pipeline{"strategy/kind=pipeline", "strategy/stages=" + std::to_string(stages),
                                 stages == 2 ? "strategy/cuts=[2]" : "strategy/cuts=[2,3]"};
        for (const char* schedule : {"message-driven", "1f1b", "1f1b-eager", "gpipe"}) {
          INFO(network.back() << ", " << precision << ", " << stages << " stages, " << schedule);
          const Overrides scheduled{std::string("strategy/schedule=") + schedule};
          CHECK(watchedHash(stages, deck + pipeline + scheduled, overflows) == expected);
        }
        const Overrides wire{"strategy/wire=" + precision};
        CHECK(watchedHash(stages, deck + pipeline + wire + placements[0], overflows) == expected);
      }
    }
  }
}

TEST_CASE("Skipped steps leave statistics alone in every strategy", "[mixed]") {
  const int ranks = std::min(2, everyone().size());
  const std::string replicas = "strategy/replicas=" + std::to_string(ranks);
  const Overrides cut{"strategy/stages=2", "strategy/cuts=[2]", "strategy/recovery_epochs=1", "run/epochs=1"};
  const std::vector<Overrides> decks{{"strategy/kind=joint", replicas, "strategy/wire=fp16"},
                                     cut + Overrides{"strategy/input=relay"},
                                     cut + Overrides{"strategy/input=frozen"},
                                     cut + Overrides{"strategy/input=free"}};
  for (const Overrides& deck : decks) {
    INFO(deck.back());
    watchedHash(ranks, images + deck + Overrides{"run/precision=fp16"}, true);
  }
  if (ranks < 2) return;
  // Floats that overflow only during the transfer.
  for (const Overrides& deck : {decks.front(), Overrides{"strategy/kind=pipeline", "strategy/stages=2"}})
    watchedHash(ranks, images + deck + Overrides{"strategy/wire=fp16"}, true);
}

TEST_CASE("Every strategy skips a batch whose loss overflows, and no other batch", "[mixed]") {
  const Overrides half{"run/precision=fp16", "run/log_every=3"},
      two{"strategy/stages=2", "strategy/cuts=[1]"}; // a longer first stage would drop the overflow
  const std::vector<Overrides> decks{{"strategy/kind=joint"},
                                     {"strategy/kind=joint", "strategy/microbatches=3"},
                                     two + Overrides{"strategy/kind=pipeline", "strategy/microbatches=3"},
                                     two + Overrides{"strategy/input=relay"},
                                     two + Overrides{"strategy/input=free"},
                                     two + Overrides{"strategy/input=frozen"}};
  for (const Overrides& deck : decks) {
    INFO(deck.back());
    const bool cut = deck.front() == two.front();
    SmallRun run(groupOf(cut ? std::min(2, everyone().size()) : 1), smallDeck(deck + half));
    spoilOneSample(run.sets.train.features);
    OverflowWatch watch(LossScale::start);
    run.train(watch);
    const int epochs = 2, updaters = static_cast<int>(run.stages.size());
    const bool own_inputs = cut && run.config.strategy.sil.input == StageInput::free;
    CHECK(watch.left_out == epochs * (own_inputs ? (run.grid.group() == 0 ? 1 : 0) : updaters));
    CHECK(watch.taken > 0);
    CHECK(std::isfinite(run.evaluate().loss.back()));
  }
}

/// Only one of them has the sample; each learns of it from the sum of the gradients.
TEST_CASE("Replicas of bf16 leave out the same batches", "[mixed]") {
  for (const Overrides& network : {Overrides{}, images}) {
    const auto trained = [&](int ranks) {
      SmallRun run(groupOf(ranks),
                   smallDeck(network + Overrides{"strategy/kind=joint", "run/precision=bf16",
                                                 "strategy/replicas=" + std::to_string(ranks)}));
      spoilOneSample(run.sets.train.features, std::numeric_limits<float>::infinity());
      OverflowWatch watch(1.0);
      run.train(watch);
      CHECK(watch.left_out == 2); // once per epoch
      const std::vector<Real> own = run.ownParameters();
      std::vector<Real> first = own;
      MPI_Bcast(first.data(), mpiCount(static_cast<std::int64_t>(first.size())), mpiType<Real>(), 0,
                run.grid.world().get());
      CHECK(own == first);
      CHECK(std::isfinite(run.evaluate().loss.back()));
      return Values(own.begin(), own.end());
    };
    const Values alone = trained(1);
    for (int ranks = 2; ranks <= everyone().size(); ranks *= 2) {
      INFO(ranks << " replicas, " << network.size() << " overrides");
      CHECK(relativeError(trained(ranks), alone) < 0.02);
    }
  }
}

/// Devices decide on the steps of a stage alone, hosts on those of all stages; both count the same steps.
TEST_CASE("Stages of bf16 that sometimes learn together count the steps that are taken", "[mixed]") {
  SmallRun run(groupOf(std::min(2, everyone().size())),
               smallDeck({"strategy/kind=sil", "strategy/stages=2", "strategy/cuts=[2]",
                          "strategy/joint_every=3", "run/precision=bf16"}));
  spoilOneSample(run.sets.train.features, std::numeric_limits<float>::infinity());
  OverflowWatch watch(1.0);
  run.train(watch);
  CHECK(watch.left_out == 2 * static_cast<int>(run.stages.size())); // once per epoch
  CHECK(watch.left_out + watch.taken == 30 * static_cast<int>(run.stages.size()));
  CHECK(std::isfinite(run.evaluate().loss.back()));
}

TEST_CASE("Networks with batch norms or tied heads learn as well in 16 bits", "[mixed]") {
  if (everyone().size() > 1) return;
  const auto lossOf = [](const Overrides& network, const std::string& precision) {
    return SmallRun(everyone(),
                    smallDeck(network + Overrides{"run/precision=" + precision, "strategy/kind=joint",
                                                  "run/epochs=4", "data/samples=1200",
                                                  "data/test_samples=600", "optimiser/learning_rate=0.004"}))
        .train()
        .evaluate()
        .loss.back();
  };
  for (const Overrides* chosen : {&images, &gpt}) {
    const Overrides& network = *chosen;
    const double expected = lossOf(network, "float");
    const double guessing = std::log(&network == &gpt ? 30.0 : 10.0);
    CHECK(expected < 0.75 * guessing); // the network has learnt
    for (const char* precision : {"bf16", "fp16"}) {
      const double found = lossOf(network, precision);
      INFO(network.front() << ", " << precision << ": " << found << " against " << expected);
      CHECK(std::fabs(found - expected) < 0.03 * expected);
    }
  }
}

} // namespace partita::test::mixed_layers
