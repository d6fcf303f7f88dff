#pragma once

#include "partita/comm/rank_places.hpp"
#include "partita/config/run_config.hpp"
#include "partita/core/types.hpp"
#include "partita/plan/cost/cluster.hpp"

#include <functional>
#include <vector>

namespace partita {

struct LayerPlan;

/// Times layers on all ranks of `world` at once; the slowest rank counts. Known layers are not timed again.
class KernelTimer {
 public:
  KernelTimer(const ExecSpace& space, const Communicator& world, bool quick)
      : _space(space), _world(world), _quick(quick), _oversubscribed(isOversubscribed(world)) {}

  /// Dense layers and convolutions of common shapes, each alone. To be called after the decks, whose layers
  /// are timed among others.
  void timeCommon();
  /// The layers of a deck: whole, with the batch and with the shares of replicas and microbatches; and
  /// divided into parts, up to one per rank, for every possible split.
  void timeDeck(const RunConfig& deck, const std::vector<LayerPlan>& layers);

  std::vector<KernelRate> take() { return std::move(_rates); }

 private:
  void timeInTurn(const std::vector<LayerPlan>& layers, std::int64_t samples);
  void timeLayers(const std::vector<LayerPlan>& layers, std::int64_t samples);

  const ExecSpace& _space;
  const Communicator& _world;
  bool _quick, _oversubscribed;
  std::vector<KernelRate> _rates;
};

/// Seconds per GFLOP of a product of n x n matrices on this rank, while others compute: the least of several,
/// or the mean on oversubscribed cores.
double secondsPerGflop(const ExecSpace& space, int n, int repeats, bool oversubscribed,
                       Precision precision = Precision::single);

/// Combines the seconds of all ranks. Those of the slowest rank count, since the others wait for
/// it; on oversubscribed cores the mean counts, since a rank that waits leaves its core to a slower
/// one. `seconds` 0: this rank did not compute.
double secondsOfRanks(const Communicator& world, double seconds, bool oversubscribed);

/// The least seconds of several calls of `body`, which all ranks make at once, on the slowest rank.
double leastSeconds(const Communicator& world, const std::function<void()>& body);

/// How much longer a product takes with 1, 2, 4, ... and all ranks of a node at work than with one.
std::vector<Concurrency> measureConcurrency(const ExecSpace& space, const Communicator& world, bool quick);

/// Seconds per byte that is copied between columns of a matrix and a message, on the slowest rank.
double secondsPerCopiedByte(const ExecSpace& space, const Communicator& world, bool quick);

/// Bytes per second at which optimiser state moves in each direction, on the slowest rank: from host memory
/// or from files in `folder`, by copies that overlap like those of an update.
double offloadBandwidth(const Communicator& world, Offload offload, const std::string& folder, bool quick);

/// The fraction of a message's time that products hide.
double measureOverlap(const ExecSpace& space, const Communicator& world, bool quick);

} // namespace partita
