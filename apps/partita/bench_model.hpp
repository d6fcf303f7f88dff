#pragma once

#include "partita/data/dataset.hpp"
#include "partita/strategy/local_stage.hpp"

#include <memory>
#include <string>
#include <vector>

namespace partita {

/// A line of `partita bench --json`.
struct Measurement {
  std::string name;
  double value;
  std::string unit;
};

/// A whole network on this rank, and data that lie in memory.
struct BenchModel {
  BenchModel(const RunConfig& deck, DataSets data, const Communicator& self);

  RunConfig config;
  DataSets sets;
  Partition partition;
  std::unique_ptr<Grid> grid;
  std::unique_ptr<LocalStage> local;
};

/// Milliseconds of each of `repeats` blocks of `steps` training steps, after one block of warm-up.
std::vector<double> timeSteps(const ExecSpace& space, BenchModel& model, int repeats, int steps);

double median(std::vector<double> values);

/// Forward and backward pass of single convolutions, told beside the rate of a large matrix product, GFLOP/s.
std::vector<Measurement> measureConvolutions(const ExecSpace& space, bool quick, double gemm_rate);

/// A training step of a small GPT, and one of its attention layers forward and backward.
std::vector<Measurement> measureText(const ExecSpace& space, const Communicator& self, bool quick,
                                     double gemm_rate);

} // namespace partita
