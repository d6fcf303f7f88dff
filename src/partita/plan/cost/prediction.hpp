#pragma once

#include "partita/plan/cost/collectives.hpp"
#include "partita/plan/strategies/cost_strategy.hpp"

#include <optional>
#include <string>
#include <vector>

namespace partita {

/// exact: the run of a program that divides the work. paper: the equations of ParaDL as printed.
enum class CostMode { exact, paper };

/// Why a strategy cannot use this many ranks.
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
  stages_do_not_divide_ranks,
  nothing_to_divide,
  refused_by_train,
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
  norm,
  parameters
};

template <>
const std::vector<std::string>& namesOf<CostMode>();
template <>
const std::vector<std::string>& namesOf<Obstacle>();
template <>
const std::vector<std::string>& namesOf<ExchangeKind>();

/// Messages of one kind in a training step.
struct Exchange {
  ExchangeKind kind = ExchangeKind::gradients;
  double messages = 0.0, bytes = 0.0; ///< sent by the rank that sends most
  double seconds = 0.0;               ///< while the rank that takes longest does nothing else
  double hidden = 0.0;                ///< seconds while it also computes

  Exchange& operator+=(const Exchange& other); ///< of the same kind
};

/// So many of these messages.
inline Exchange operator*(double times, const Exchange& exchange) {
  return {exchange.kind, times * exchange.messages, times * exchange.bytes, times * exchange.seconds,
          times * exchange.hidden};
}

/// Of all kinds.
double bytesOf(const std::vector<Exchange>& exchanges);

/// Replaces numbers of messages and bytes by those of another rank; the times stay.
void takeTraffic(std::vector<Exchange>& exchanges, const std::vector<Exchange>& other);

/// Adds messages to those of the same kind. The list is in the order of the kinds.
void addExchange(std::vector<Exchange>& exchanges, const Exchange& exchange);

/// Seconds of the passes and of the update.
struct ComputeTime {
  double forward = 0.0, backward = 0.0, update = 0.0;

  double passes() const { return forward + backward; }
  double total() const { return passes() + update; }
};

/// What a strategy costs on this many ranks. Times are NaN if it cannot run at all.
struct Prediction {
  CostStrategy strategy = CostStrategy::serial;
  std::optional<Split> split; ///< how parts divide a layer; empty: nothing is divided
  std::int64_t ranks = 1, nodes = 1;
  RankGrid grid;
  Obstacle obstacle = Obstacle::none;
  std::string detail; ///< the obstacle in words
  std::int64_t microbatches = 1;
  double batch = 0.0;              ///< samples per step, over all ranks
  double steps = 0.0;              ///< per epoch
  double run_steps = 0.0;          ///< of the whole run; 0: unknown
  ComputeTime busy;                ///< per step, of the rank that computes longest
  double epoch_compute = 0.0;      ///< seconds
  double epoch_idle = 0.0;         ///< of these: waits of the rank that computes longest for other stages
  std::vector<Exchange> exchanges; ///< per step, in the order of their kinds
  double memory = 0.0;             ///< bytes of the rank that needs most

  bool feasible() const { return obstacle == Obstacle::none; }
  bool hasTimes() const { return feasible() || obstacle == Obstacle::not_enough_memory; }
  double stepCommunication() const; ///< seconds
  double epochCommunication() const { return steps * stepCommunication(); }
  double epochSeconds() const { return epoch_compute + epochCommunication(); }
  double stepSeconds() const { return epochSeconds() / steps; }
  double busySeconds() const { return (epoch_compute - epoch_idle) / steps; } ///< per step, as idleSeconds
  double idleSeconds() const { return epoch_idle / steps; }
  /// Of the whole run, whose nodes are taken as a whole; NaN if its length is not known.
  double nodeHours() const;
  /// The largest part of the time: "compute" or a kind of exchange. The obstacle if there is one.
  std::string limiter() const;

  /// Sets what the rank that computes longest does in a step, and how long it waits for other stages.
  void setCompute(const ComputeTime& computing, double idle = 0.0);
  /// Adds messages over a link that `flows` equal exchanges share.
  void add(ExchangeKind kind, const Messages& messages, const Link& link, double flows = 1.0);
  /// The same for messages whose time is known.
  void add(const Exchange& exchange) { addExchange(exchanges, exchange); }

  RankChoice choice() const { return {strategy, grid, split, microbatches}; }
};

} // namespace partita
