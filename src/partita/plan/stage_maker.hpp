#pragma once

#include "partita/config/run_config.hpp"
#include "partita/plan/stage_plan.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace partita {

/// What any range of consecutive layers of a network needs, in passes over `rows` samples. Each query takes
/// constant time, because a search over cuts makes many of them.
class LayerSizeTable {
 public:
  LayerSizeTable(const RunConfig& config, std::vector<LayerPlan> layers, std::int64_t rows);

  /// Of layers [first, last).
  LayerSizes of(std::int64_t first, std::int64_t last) const;

 private:
  using Most = std::array<std::int64_t, 3>; ///< the maxima of LayerSizes

  std::vector<LayerSizes> _before;      ///< sums over layers [0, i)
  std::vector<std::vector<Most>> _most; ///< over 1, 2, 4, ... layers from i on
};

/// Makes the stages of a network, with the activations at cuts moved to where the labels require them, and
/// in the precision of the run. Parts of a stage exchange floats.
class StageMaker {
 public:
  StageMaker(const RunConfig& config, const std::vector<LayerPlan>& layers);

  /// Layers [first, last) as stage `index` of `stages`.
  StagePlan stage(std::int64_t first, std::int64_t last, int index, int stages) const;
  /// The same, for `stageMemory` only: a search over cuts would copy the layers in the middle many times, so
  /// they are only counted, in `left_out`. `sizes`: of the same network and run, for the rows of a pass.
  StagePlan ends(std::int64_t first, std::int64_t last, int index, int stages,
                 const LayerSizeTable& sizes) const;

 private:
  bool matched(std::int64_t cut) const {
    return !_matched.empty() && _matched[static_cast<std::size_t>(cut)];
  }
  /// `layers`: of the stage, all or without some in the middle.
  StagePlan make(std::vector<LayerPlan> layers, std::int64_t first, std::int64_t last, int index,
                 int stages) const;

  const RunConfig& _config;
  const std::vector<LayerPlan>& _layers;
  std::vector<bool> _matched; ///< by cut: is the stage before it trained without its last activation?
};

} // namespace partita
