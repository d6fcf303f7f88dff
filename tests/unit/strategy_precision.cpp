#include "partita/io/stage_tensors.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/strategy/divergence.hpp"
#include "partita/strategy/stage_trainer.hpp"

#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"
#include "support/small_model.hpp"

namespace partita::test::strategy_precision {

/// Training steps of one stage in each precision, with gradients that initially exceed the range of fp16.

namespace {

using Catch::Matchers::ContainsSubstring;

constexpr DefaultSpace space;
constexpr std::int64_t inputs = 30, classes = 5, batch = 4, steps = 30;

struct Trainer {
  explicit Trainer(Precision precision, const NetworkSection& network = smallConfig(1).network,
                   double clip_norm = 0.0)
      : config(configFor(precision, network, clip_norm)), model(config, inputs, classes),
        trainer(config, *model.stages.front(), model.grid, {steps, steps}) {}

  static RunConfig configFor(Precision precision, const NetworkSection& network, double clip_norm) {
    RunConfig config = smallConfig(1);
    config.network = network;
    config.training.batch = batch;
    config.run.precision = precision;
    config.optimiser.schedule = ScheduleKind::constant;
    config.optimiser.clip_norm = clip_norm;
    return config;
  }
  void step(double size, std::uint64_t number) {
    Values values = normals(batch * inputs, number);
    for (double& value : values) value *= size;
    const Matrix in = matrixOf(batch, inputs, values);
    trainer.step(space, in, {labelsOf({0, 1, 2, 3}), Matrix()});
  }
  void finish() { trainer.updater().finishUpdate(space); } ///< before it, only a device may know of a step
  std::vector<Real> masters() { return model.stages.front()->stage.masters().values(space); }

  Values statistics() { return valuesOf(model.stages.front()->stage.statistics()); }
  bool takes(std::uint64_t number) { ///< makes a step; returns whether it was taken
    const std::int64_t before = trainer.updater().optimiser().steps();
    step(1.0, number);
    finish();
    return trainer.updater().optimiser().steps() > before;
  }

  RunConfig config;
  SmallModel model;
  StageTrainer trainer;
};

NetworkSection withBatchNorm() {
  NetworkSection network = denseNetwork({24, 20}, Activation::identity);
  LayerSpec norm;
  norm.type = "batch-norm";
  norm.activation = Activation::relu;
  network.layers.insert(network.layers.begin() + 2, norm);
  network.layers.insert(network.layers.begin() + 1, norm);
  return network;
}

} // namespace

TEST_CASE("Steps that overflow are skipped until the loss scale fits", "[strategy]") {
  Trainer fp16(Precision::fp16);
  const StageUpdater& updater = fp16.trainer.updater();
  const std::vector<Real> before = fp16.masters();
  fp16.step(30.0, 1);
  fp16.finish();
  CHECK(fp16.masters() == before);
  CHECK(updater.step() == 1); // the batch is used up
  CHECK(updater.optimiser().steps() == 0);
  CHECK(updater.lossScale().value == 32768.0);
  for (std::uint64_t i = 2; i <= 20; ++i) fp16.step(30.0, i);
  fp16.finish();
  const std::int64_t taken = updater.optimiser().steps();
  CHECK(taken > 5);
  CHECK(taken < 20);
  CHECK(updater.lossScale().value < 32768.0);
  const std::vector<Real> after = fp16.masters();
  CHECK(after != before);
  CHECK(std::all_of(after.begin(), after.end(), [](Real value) { return std::isfinite(value); }));
}

TEST_CASE("The state of updates is that of the checkpoint", "[strategy]") {
  Trainer trainer(Precision::fp16);
  StageUpdater& updater = trainer.trainer.updater();
  updater.resume(9, {5.0, 4096.0, 7.0});
  const UpdateState state = updater.updateState();
  CHECK(state.steps == 5.0);
  CHECK(state.loss_scale == 4096.0);
  CHECK(state.clean_steps == 7.0);
}

TEST_CASE("The range of bf16 is that of float, and needs no scale", "[strategy]") {
  for (const Precision precision : {Precision::single, Precision::bf16}) {
    Trainer trainer(precision);
    for (std::uint64_t i = 1; i <= 10; ++i) trainer.step(30.0, i);
    CHECK(trainer.trainer.updater().optimiser().steps() == 10);
    CHECK(trainer.trainer.updater().lossScale().value == 1.0);
  }
}

TEST_CASE("A skipped step leaves nothing of its batch in running statistics", "[strategy]") {
  Trainer trainer(Precision::fp16, withBatchNorm());
  trainer.trainer.updater().resume(0, {0.0, LossScale::most, 0.0}); // too large for fp16
  const Values start = trainer.statistics();
  std::uint64_t left_out = 0;
  while (left_out < 12 && !trainer.takes(left_out)) {
    CHECK(trainer.statistics() == start);
    ++left_out;
  }
  CHECK(left_out > 2);
  CHECK(left_out < 12);
  CHECK(trainer.statistics() != start);
  std::vector<bool> taken{true};
  for (std::uint64_t i = left_out + 1; i < 20; ++i) taken.push_back(trainer.takes(i));

  // The result is as if that batch had never existed.
  Trainer without(Precision::fp16, withBatchNorm());
  without.trainer.updater().resume(0, {0.0, std::ldexp(LossScale::most, -static_cast<int>(left_out)), 0.0});
  for (std::uint64_t i = left_out; i < 20; ++i) CHECK(without.takes(i) == taken[i - left_out]);
  CHECK(without.statistics() == trainer.statistics());
  CHECK(without.masters() == trainer.masters());
}

/// On a device that decides alone the host learns of it later, see StepGate.
TEST_CASE("Whoever decides it, a step that is not finite leaves nothing behind", "[strategy]") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    for (const double clip_norm : {0.0, 0.01}) {
      Trainer trainer(precision, withBatchNorm(), clip_norm), without(precision, withBatchNorm(), clip_norm);
      const StageUpdater& updater = trainer.trainer.updater();
      trainer.step(1.0, 1);
      const std::vector<Real> masters = trainer.masters();
      const Values statistics = trainer.statistics();
      trainer.step(infinity, 2);
      trainer.step(infinity, 3);
      CHECK(trainer.masters() == masters);
      CHECK(trainer.statistics() == statistics);
      trainer.step(1.0, 4);
      without.step(1.0, 1);
      without.finish();
      without.trainer.updater().resume(1, {1.0, LossScale::start / 4.0, 0.0});
      without.step(1.0, 4);
      for (Trainer* each : {&trainer, &without}) each->finish();
      CHECK(trainer.masters() == without.masters());
      CHECK(trainer.masters() != masters);
      CHECK(trainer.statistics() == without.statistics());
      CHECK(updater.optimiser().steps() == 2);
      CHECK(updater.updateState().steps == 2.0);
      const bool scales = precision == Precision::fp16;
      CHECK(updater.updateState().loss_scale == (scales ? LossScale::start / 4.0 : 1.0));
      CHECK(updater.updateState().clean_steps == (scales ? 1.0 : 0.0));
      CHECK(updater.step() == 4);
    }
  }
}

TEST_CASE("A loss scale that a step doubles does not change that step", "[strategy]") {
  for (const double clip_norm : {0.0, 0.01}) {
    Trainer constant(Precision::fp16, withBatchNorm(), clip_norm),
        doubled(Precision::fp16, withBatchNorm(), clip_norm);
    const std::vector<Real> before = constant.masters();
    constant.trainer.updater().resume(0, {0.0, 4096.0, 0.0});
    doubled.trainer.updater().resume(0, {0.0, 4096.0, LossScale::clean_steps - 1.0});
    for (Trainer* each : {&constant, &doubled}) {
      each->step(1.0, 1);
      each->finish();
    }
    CHECK(constant.trainer.updater().lossScale().value == 4096.0);
    CHECK(doubled.trainer.updater().lossScale().value == 8192.0);
    CHECK(constant.masters() != before);
    CHECK(doubled.masters() == constant.masters());
  }
}

TEST_CASE("A NaN in a hidden layer is seen in the loss, in spite of ReLU", "[strategy]") {
  if (!device_is_host) return; // libraries of devices may turn NaN into 0, and the loss is seen later
  Trainer trainer(Precision::single, denseNetwork({24, 20}, Activation::relu));
  trainer.step(1.0, 1);
  std::vector<Real> masters = trainer.masters();
  masters.front() = std::numeric_limits<Real>::quiet_NaN();
  trainer.model.stages.front()->stage.setParameters(space, masters.data());
  CHECK_THROWS_WITH(trainer.step(1.0, 2), ContainsSubstring("the loss is not finite at step 2; ") &&
                                              ContainsSubstring("the parameters of layer0.dense"));
}

TEST_CASE("A parameter, statistic or moment that is not finite is found, and named", "[strategy]") {
  for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
    Trainer trainer(precision, withBatchNorm());
    const LocalStage& local = *trainer.model.stages.front();
    const std::vector<Optimiser::State> moments = trainer.trainer.updater().states();
    REQUIRE(moments.size() == 2);
    const auto check_model = [&] { failIfNotFinite(space, local, 7); };
    CHECK_NOTHROW(check_model());
    for (const double bad :
         {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
      const auto find = [&](const std::string& kind, const StoredVector& stored, const auto& check) {
        const std::vector<Real> before = stored.values(space);
        for (const StageTensor& tensor : tensorsOf(local.stage, kind)) {
          std::vector<Real> values = before;
          values[static_cast<std::size_t>(tensor.offset + tensor.size - 1)] = static_cast<Real>(bad);
          stored.copyIn(space, values.data());
          CHECK_THROWS_WITH(check(), ContainsSubstring("stage 1: '/" + kind + "/" + tensor.layer + "/" +
                                                       tensor.name + "' is not finite after 7 steps"));
        }
        stored.copyIn(space, before.data());
        CHECK_NOTHROW(check());
      };
      find(parameters_kind, local.stage.masters(), check_model);
      find(statistics_kind, StoredVector(local.stage.statistics()), check_model);
      for (const Optimiser::State& moment : moments)
        find(moment.name, moment.values,
             [&] { failIfNotFinite(space, local, moment.name, moment.values, 7); });
    }
  }
}

TEST_CASE("A parameter that fp16 cannot represent is found, and named", "[strategy]") {
  for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
    Trainer trainer(precision, withBatchNorm());
    LocalStage& local = *trainer.model.stages.front();
    const std::vector<Real> before = trainer.masters();
    const auto check = [&](const StageTensor& tensor, Real value) {
      std::vector<Real> values = before;
      values[static_cast<std::size_t>(tensor.offset + tensor.size - 1)] = value;
      local.stage.setParameters(space, values.data());
      failIfNotFinite(space, local, 7);
    };
    for (const StageTensor& tensor : local.stage.tensors()) {
      CHECK_NOTHROW(check(tensor, -65504));
      if (precision == Precision::fp16)
        CHECK_THROWS_WITH(check(tensor, -70000),
                          ContainsSubstring("stage 1: '/parameters/" + tensor.layer + "/" + tensor.name +
                                            "' is beyond the range of run/precision after 7 steps"));
      else
        CHECK_NOTHROW(check(tensor, -70000));
    }
  }
}

TEST_CASE("A run that skips every step ends", "[strategy]") {
  Trainer trainer(Precision::bf16);
  const auto skip = [&](std::uint64_t times) {
    for (std::uint64_t i = 0; i < times; ++i) trainer.step(std::numeric_limits<double>::infinity(), i);
    trainer.trainer.updater().finishUpdate(space);
  };
  CHECK_NOTHROW(skip(99));
  CHECK_THROWS_AS(skip(1), RunError);
}

} // namespace partita::test::strategy_precision
