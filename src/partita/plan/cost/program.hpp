#pragma once

#include "partita/plan/grid_plan.hpp"
#include "partita/plan/stage_memory.hpp"

#include <limits>
#include <vector>

namespace partita {

/// A training run as `partita train` would do it.
struct ProgramRun {
  RunConfig config; ///< effective
  Partition partition;
  GridPlan grid;
  DeviceKind device{}; ///< of all ranks

  /// Bytes of the rank that needs most; `of_stages`: the memory of each stage, if it is known.
  double memory() const;
  double memory(const std::vector<StageMemory>& of_stages) const;
};

/// What this program would do with the network of a deck, by the rules of `partita train -n`.
class Program {
 public:
  Program(RunConfig deck, std::vector<LayerPlan> layers, const DeviceKind& device = {})
      : _deck(std::move(deck)), _layers(std::move(layers)), _device(device) {}

  const RunConfig& deck() const { return _deck; }
  const std::vector<LayerPlan>& layers() const { return _layers; }
  const DeviceKind& device() const { return _device; }
  const Shape& output() const { return _layers.back().out; }
  std::int64_t parameters() const { return countParameters(_layers); }
  /// The deck on this many ranks. Throws UserError if `train` would refuse it.
  ProgramRun run(std::int64_t ranks) const { return run(_deck.strategy, ranks); }
  /// The deck with another strategy, and the same with another batch.
  ProgramRun run(const StrategySection& strategy, std::int64_t ranks) const {
    return run(strategy, ranks, _deck.training.batch);
  }
  /// `most_bytes`: see planPartition.
  ProgramRun run(const StrategySection& strategy, std::int64_t ranks, std::int64_t batch,
                 double most_bytes = std::numeric_limits<double>::infinity()) const;
  /// One rank alone that trains the whole network.
  ProgramRun whole(std::int64_t batch) const;

 private:
  RunConfig _deck;
  std::vector<LayerPlan> _layers;
  DeviceKind _device;
};

} // namespace partita
