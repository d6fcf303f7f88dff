#pragma once

#include "partita/core/region.hpp"
#include "partita/data/dataset.hpp"
#include "partita/strategy/local_stage.hpp"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace partita {

/// A line of `partita bench --json`.
struct Measurement {
  std::string name;
  double value;
  std::string unit;
  double flops = 0.0, bytes = 0.0; ///< FLOPs of products, bytes to and from memory; 0: none
};

/// Bytes that these layers read and write in a training step without any cache: each pass (forward, gradient
/// of weights, gradient of inputs) reads or writes inputs, outputs and weights once.
double bytesMoved(const std::vector<LayerPlan>& layers, std::int64_t samples, Precision precision);

/// References for the results: rate of a large matrix product in GFLOP/s, and memory bandwidth in GB/s.
struct BenchRates {
  double gemm = 0.0, triad = 0.0;
  const char* product = "sgemm"; ///< the measurement that `gemm` is
};

/// The rank on which models are trained, and the changes to their decks.
struct BenchSetting {
  const Communicator& self;
  std::vector<std::string> overrides;

  BenchSetting with(const std::string& override) const {
    BenchSetting more = *this;
    more.overrides.push_back(override);
    return more;
  }
};

/// A whole network on this rank, and its data in memory.
struct BenchModel {
  BenchModel(const RunConfig& deck, DataSets data, const BenchSetting& setting);

  RunConfig config;
  DataSets sets;
  Partition partition;
  std::unique_ptr<Grid> grid;
  std::unique_ptr<LocalStage> local;
};

/// The perceptron 784-width x5-47 on random images.
BenchModel perceptron(std::int64_t width, std::int64_t batch, const BenchSetting& setting);
/// The network of input-decks/lenet-mnist.toml for 47 classes, on random images.
BenchModel leNet(std::int64_t batch, const BenchSetting& setting);
/// The network of input-decks/resnet-emnist.toml, on random images.
BenchModel smallResNet(std::int64_t batch, const BenchSetting& setting);
/// A GPT of six layers, width 256, on 16 windows of 128 characters.
BenchModel smallGpt(const BenchSetting& setting);

/// Seconds of a training step.
struct StepTimes {
  double step = 0.0;                        ///< the median of several blocks of steps
  std::array<double, phase_count> phases{}; ///< with a fence after each phase, which takes time too

  /// The part of `step` that updates the parameters.
  double update() const;
};

/// Times training steps of a model. The first ones determine how many are enough.
StepTimes timeSteps(const ExecSpace& space, BenchModel& model, bool quick);

/// Times training steps of a model, and shows where the time goes.
Measurement measureSteps(const ExecSpace& space, const std::string& name, BenchModel& model, bool quick,
                         const BenchRates& rates);

/// Times the forward and backward pass of each single convolution whose name is wanted.
std::vector<Measurement> measureConvolutions(const ExecSpace& space, bool quick, const BenchRates& rates,
                                             const std::function<bool(const std::string&)>& wanted);
/// Forward and backward pass of an attention layer of the GPT, including its projections.
Measurement measureAttention(const ExecSpace& space, const BenchModel& gpt, bool quick,
                             const BenchRates& rates);

} // namespace partita
