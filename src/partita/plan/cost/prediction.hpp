#pragma once

#include "partita/config/names.hpp"
#include "partita/plan/cost/collectives.hpp"

#include <string>
#include <vector>

namespace partita {

/// The ways to divide training that the cost model knows. `grid` divides both the input and the output
/// channels of a layer; the last three combine replicas with a division of layers inside a node.
enum class CostStrategy {
  serial,
  data,
  spatial,
  filter,
  channel,
  grid,
  pipeline,
  data_filter,
  data_spatial,
  data_grid
};

/// exact: as a program that divides the work would run. paper: the equations of ParaDL as printed.
enum class CostMode { exact, paper };

/// Why a strategy cannot use so many ranks.
enum class Obstacle {
  none,
  more_ranks_than_one,
  more_ranks_than_batch,
  more_ranks_than_filters,
  more_ranks_than_channels,
  more_ranks_than_places,
  slab_smaller_than_halo,
  more_ranks_than_layers,
  parts_do_not_divide_ranks,
  nothing_to_divide,
  not_enough_memory
};

/// What the busiest rank sends.
enum class ExchangeKind {
  gradients,
  all_gather,
  all_reduce,
  reduce_scatter,
  halo,
  gather,
  stage,
  batch_norm
};

template <>
const std::vector<std::string>& namesOf<CostStrategy>();
template <>
const std::vector<std::string>& namesOf<CostMode>();
template <>
const std::vector<std::string>& namesOf<Obstacle>();
template <>
const std::vector<std::string>& namesOf<ExchangeKind>();

/// How the ranks of a strategy are used.
struct RankGrid {
  std::int64_t stages = 1, replicas = 1;
  std::int64_t parts = 1; ///< ranks that share each layer of a stage
};

/// Messages of one kind in a training step.
struct Exchange {
  ExchangeKind kind = ExchangeKind::gradients;
  double messages = 0.0, bytes = 0.0; ///< sent by the rank that sends most
  double seconds = 0.0;
};

/// What a strategy costs on so many ranks. Times are NaN where it cannot run at all.
struct Prediction {
  CostStrategy strategy = CostStrategy::serial;
  std::string split = "none"; ///< what parts share of a layer: none, filter, channel, grid, spatial
  std::int64_t ranks = 1;
  RankGrid grid;
  Obstacle obstacle = Obstacle::none;
  double batch = 0.0;              ///< samples per step, over all ranks
  double steps = 0.0;              ///< per epoch
  double epoch_compute = 0.0;      ///< seconds
  std::vector<Exchange> exchanges; ///< per step, in the order of their kinds
  double memory = 0.0;             ///< bytes of the rank that needs most

  bool feasible() const { return obstacle == Obstacle::none; }
  bool hasTimes() const { return feasible() || obstacle == Obstacle::not_enough_memory; }
  double stepCommunication() const; ///< seconds
  double epochCommunication() const { return steps * stepCommunication(); }
  double epochSeconds() const { return epoch_compute + epochCommunication(); }
  double stepSeconds() const { return epochSeconds() / steps; }
  /// The largest part of the time, "compute" or a kind of exchange; the obstacle if there is one.
  std::string limiter() const;

  /// Adds messages over a link that `flows` such exchanges share, and the seconds of additions between them.
  void add(ExchangeKind kind, const Messages& messages, const Link& link, double flows = 1.0,
           double additions = 0.0);
};

} // namespace partita
