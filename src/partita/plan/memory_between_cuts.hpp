#pragma once

#include "partita/plan/stage_maker.hpp"
#include "partita/plan/stage_memory.hpp"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace partita {

/// What stages need at the least, for parameters, gradients and tapes: it grows with each layer, unlike the
/// buffers for what enters and leaves a stage.
class LeastMemory {
 public:
  LeastMemory(const RunConfig& config, std::vector<LayerPlan> layers, int stages, int replicas,
              std::int64_t real_bytes);

  /// Bytes that layers [first, last) need as stage `index`, at the least.
  double of(std::int64_t first, std::int64_t last, int index) const;

 private:
  std::vector<std::int64_t> _held{0}, _kept{0}; ///< bytes of the first layers; kept ones for a sample
  std::vector<std::int64_t> _rows;              ///< by stage: samples on tapes
};

/// What stages between any cuts need, each on a rank of its own. It is the same for the same layers in places
/// of one kind, so a search over cuts asks for most of it many times.
class MemoryBetweenCuts {
 public:
  MemoryBetweenCuts(const RunConfig& config, const std::vector<LayerPlan>& layers, int stages, int replicas,
                    const DeviceKind& device);

  /// Bytes that layers [first, last) need as stage `index`, see `stageMemory`, without buffers for copies of
  /// parameters of other stages, which depend on all cuts.
  std::int64_t of(std::int64_t first, std::int64_t last, int index) const;
  /// Bytes of the stage before or after one of these cuts, whichever needs more.
  double mostAt(std::size_t cut, const std::vector<std::int64_t>& cuts) const;

 private:
  const RunConfig& _config;
  StageMaker _maker;
  std::int64_t _layers;
  int _stages, _replicas;
  DeviceKind _device;
  LayerSizeTable _sizes;
  std::vector<int> _like; ///< by stage: the first one in a place of that kind
  mutable std::unordered_map<std::int64_t, std::int64_t> _known;
};

} // namespace partita
