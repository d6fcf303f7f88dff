#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace partita {

/// A layer on one device, or on each of the devices that share it: bytes of parameters and of all values that
/// a pass keeps, and seconds of a forward and a backward pass of one microbatch.
struct PlacedLayer {
  std::int64_t id = 0;
  double parameter_bytes = 0.0, activation_bytes = 0.0, forward = 0.0, backward = 0.0;
  bool tensor_parallel = false; ///< is it divided over the devices of its stage?
};

/// Positions of two layers. Per microbatch, `bytes` go from the first to the second.
struct LayerEdge {
  int from = 0, to = 0;
  double bytes = 0.0;
};

/// A network with its layers divided over `tensor_degree` devices. It has no cycles and at least one layer.
struct LayerGraph {
  int tensor_degree = 1;
  std::vector<PlacedLayer> layers;
  std::vector<LayerEdge> edges;
};

/// An expert's plan: the numbers of stages, devices per layer, replicas, and transformer layers, which are
/// divided evenly.
struct FixedPlan {
  std::int64_t stages = 1, tensor_degree = 1, replicas = 1, transformer_layers = 1;
  std::int64_t before = 0; ///< layers before the transformer layers: on the first stage, besides its share
};

/// What a stage does to need less memory.
struct StageOptions {
  bool recompute = false; ///< keeps only its inputs, and repeats the forward pass
  bool shard = false;     ///< its replicas share the optimiser state (ZeRO-1)
  bool offload = false;   ///< the optimiser state is in the memory of the host

  bool any() const { return recompute || shard || offload; }
  bool operator==(const StageOptions& other) const {
    return recompute == other.recompute && shard == other.shard && offload == other.offload;
  }
};

/// The devices, and the network for each degree of tensor parallelism.
struct PlacementTask {
  double memory = 0.0;    ///< bytes per device
  double bandwidth = 1.0; ///< bytes/s between devices, or between nodes of several devices
  std::int64_t devices = 1, microbatches = 1;
  std::int64_t node_devices = 1; ///< devices of a node; divides `devices`
  double node_bandwidth = 1.0;   ///< bytes/s inside a node, at least `bandwidth`
  double host_bandwidth = 1.0;   ///< bytes/s between a device and its host
  std::int64_t most_replicas = std::numeric_limits<std::int64_t>::max();
  bool recompute = false; ///< all stages recompute
  StageOptions choose;    ///< options that each stage may use
  bool adam = false;      ///< otherwise SGD, which has no state
  std::vector<LayerGraph> graphs;
  std::optional<FixedPlan> fixed;
};

/// The layers of a stage, as positions in their graph, and its devices in one replica.
struct PlacedStage {
  std::vector<int> layers;
  std::int64_t devices = 1;
  bool opens_node =
      true; ///< its first device is the first one of a node; otherwise it follows the stage before
  StageOptions options{};
};

/// The fastest plan, or why there is none.
struct DevicePlan {
  bool feasible = false;
  std::size_t graph = 0; ///< the graph used: a position in the task
  std::vector<PlacedStage> stages;
  std::int64_t replicas = 0;
  double time = 0.0; ///< seconds per batch
  std::string limit; ///< if not feasible: the first limit for each tensor degree
};

/// The fastest way to cut the layers into the stages of a 1F1B pipeline with replicas: the dynamic program of
/// PHAZE (ICML 2024) over successor-closed sets of layers, extended by nodes and options of stages. The
/// result is exact. Throws UserError if there are more than 40,000 such sets, or if the tables would need
/// more than 512 MiB.
DevicePlan placeLayers(const PlacementTask& task);

/// The same by trying every cut, every way to fill nodes, and every number of replicas. Throws UserError with
/// more than 12 layers or 1,000 microbatches.
DevicePlan placeByBruteForce(const PlacementTask& task);

/// Seconds per batch of a plan; empty if it does not fit into memory, nodes or devices, or if a layer
/// precedes one that it needs.
std::optional<double> timeOfPlan(const PlacementTask& task, std::size_t graph,
                                 const std::vector<PlacedStage>& stages, std::int64_t replicas);

/// Seconds per batch of the fixed plan; empty if there is none or it does not fit. Each stage gets the same
/// number of transformer layers, rounded up, as long as there are any, and the last stage also gets what
/// follows them. Stages that stay empty have devices and count as stages. All this is as in the authors'
/// program; there an embedding counts as a transformer layer (`before` is 0). Nodes and options are the best
/// for these stages.
std::optional<double> timeOfFixedPlan(const PlacementTask& task);

} // namespace partita
