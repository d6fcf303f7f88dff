#pragma once

#include "partita/plan/placement/device_placement.hpp"

#include <cmath>
#include <random>

namespace partita::test {

using Random = std::mt19937_64;

inline double fraction(Random& random) {
  return static_cast<double>(random() % 1000 + 1) / 1000.0;
}

inline int below(Random& random, int n) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(n));
}

/// A chain of layers, as the case asks with further edges that skip layers or with branches.
inline LayerGraph randomGraph(Random& random, int layers, int degree, bool branches) {
  LayerGraph graph;
  graph.tensor_degree = degree;
  const bool mixed = below(random, 3) == 0;
  for (int i = 0; i < layers; ++i)
    graph.layers.push_back({i - 1, fraction(random) / degree, fraction(random) / degree,
                            fraction(random) / degree, 2.0 * fraction(random) / degree,
                            degree > 1 && !(mixed && below(random, 2) == 0)});
  for (int i = 1; i < layers; ++i)
    if (!branches || below(random, 4) > 0) graph.edges.push_back({i - 1, i, fraction(random)});
  const int skips = branches ? below(random, 4) : 0;
  for (int skip = 0; skip < skips && layers > 2; ++skip) {
    const int to = 2 + below(random, layers - 2);
    graph.edges.push_back({below(random, to - 1), to, fraction(random)});
  }
  return graph;
}

inline PlacementTask randomTask(Random& random, int most_layers, bool branches) {
  const int layers = 1 + below(random, most_layers);
  PlacementTask task;
  task.memory = 1.0 + 12.0 * fraction(random) * fraction(random);
  task.bandwidth = std::pow(10.0, below(random, 4) - 1);
  task.devices = 1 + below(random, 16);
  task.microbatches = 1 + below(random, 20);
  if (below(random, 4) == 0) task.most_replicas = 1 + below(random, 4);
  task.recompute = below(random, 2) == 0;
  task.adam = below(random, 2) == 0;
  for (int degree = 1 << below(random, 2); degree <= 4; degree *= 2)
    if (task.graphs.empty() || below(random, 3) > 0)
      task.graphs.push_back(randomGraph(random, layers, degree, branches));
  return task;
}

/// The same with nodes of several devices, with options of stages, or both.
inline PlacementTask randomTaskWith(Random& random, int most_layers, bool branches, bool nodes,
                                    bool options) {
  PlacementTask task = randomTask(random, most_layers, branches);
  if (nodes) {
    task.node_devices = 2 + below(random, 3);
    task.devices = task.node_devices * (1 + below(random, 6));
    task.node_bandwidth = task.bandwidth * std::pow(10.0, below(random, 3));
  }
  if (options) {
    task.adam = below(random, 4) > 0;
    task.choose = {!task.recompute && below(random, 2) == 0, below(random, 2) == 0, below(random, 2) == 0};
    task.host_bandwidth = std::pow(10.0, below(random, 3) - 1);
  }
  return task;
}

} // namespace partita::test
