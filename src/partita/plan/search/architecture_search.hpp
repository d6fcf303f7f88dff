#pragma once

#include "partita/plan/placement/device_placement.hpp"
#include "partita/plan/search/latency.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace partita {

/// A case of a search: microbatch size, memory of a device and recomputation.
struct SearchCase {
  std::int64_t microbatch = 1;
  double memory = 80e9; ///< bytes per device
  bool recompute = false;
  StageOptions choose{}; ///< options that each stage may use
};

/// A network whose layers may be divided in several ways.
struct SearchModel {
  std::string name;
  /// Its layers for each tensor degree, by microbatch size. Called once per size.
  std::function<std::vector<ModelChain>(std::int64_t microbatch)> chains;
  std::optional<FixedPlan> expert;
};

/// The task of a search: all accelerators x cases x models.
struct SearchTask {
  std::vector<Accelerator> accelerators;
  std::vector<SearchCase> cases;
  std::vector<SearchModel> models;
  LatencyOptions latency;
  ScheduleOptions schedule;
  std::int64_t devices = 1024, batch = 4096; ///< batch: samples over all replicas
  double bandwidth = 4294967296.0;           ///< bytes/s between devices, or between nodes
  std::int64_t node_devices = 1;             ///< devices of a node; divides `devices`
  double node_bandwidth = 4294967296.0;      ///< bytes/s inside a node
  double host_bandwidth = 4294967296.0;      ///< bytes/s between a device and its host
  bool adam = false;
};

/// The fastest plan of a model on an accelerator.
struct SearchAnswer {
  bool feasible = false;
  double time = 0.0;        ///< seconds per batch
  double lower_bound = 0.0; ///< no schedule or plan of this model is faster; 0 if nothing fits
  double expert_time = 0.0; ///< of the expert's plan; 0: there is none or it does not fit
  double stages = 0.0, tensor_degree = 0.0, replicas = 0.0;
  double utilisation = 0.0; ///< of the processing elements of the devices in use

  /// Conversion to numbers, for files and messages.
  static constexpr std::size_t numbers = 8;
  void write(double* values) const;
  static SearchAnswer read(const double* values);
};

/// Results of one accelerator: for each case, all models.
using SearchRow = std::vector<SearchAnswer>;

/// Evaluates accelerators one by one, in any order and each independently of the others.
class ArchitectureSearch {
 public:
  explicit ArchitectureSearch(const SearchTask& task);

  SearchRow price(std::size_t accelerator);
  std::size_t answersPerRow() const { return _task.cases.size() * _task.models.size(); }

  /// The plan of one result, the task that it solves, and its limit: "memory", "bandwidth", "devices" or
  /// "computation". It is the first of these whose relaxation makes the plan faster by more than 0.1 %.
  struct Plan {
    PlacementTask task;
    DevicePlan plan;
    std::string limit;
  };
  Plan planOf(std::size_t accelerator, std::size_t answer);

 private:
  /// Times of the layers of a chain, forward and backward, and their lower bounds.
  struct LayerTimes {
    std::vector<double> forward, backward, least_forward, least_backward;
  };
  using Times = std::vector<LayerTimes>; ///< per chain

  const std::vector<ModelChain>& chains(std::size_t model, std::int64_t microbatch);
  Times timesOf(std::size_t accelerator, std::size_t model, std::int64_t microbatch);
  Times timesOf(std::size_t accelerator, std::size_t model, std::int64_t microbatch, double bandwidth,
                double node_bandwidth);
  PlacementTask placement(const Times& times, std::size_t model, const SearchCase& one, bool least);
  SearchAnswer answer(const Accelerator& accelerator, const Times& times, std::size_t model,
                      const SearchCase& one);

  const SearchTask& _task;
  std::map<std::pair<std::size_t, std::int64_t>, std::vector<ModelChain>> _chains;
};

} // namespace partita
