#pragma once

#include "partita/plan/cost/cluster.hpp"
#include "partita/plan/cost/layer_cost.hpp"
#include "partita/plan/cost/prediction.hpp"
#include "partita/plan/cost/program_memory.hpp"

#include <memory>

namespace partita {

/// The training whose cost is asked for.
struct CostTask {
  std::vector<LayerCost> layers;
  NetworkTiming timing; ///< of this network on the cluster, as far as known
  double samples = 1.0; ///< of the training set: D
  double batch = 1.0;   ///< samples per step: B, over all replicas, or per replica
  bool batch_per_replica = false;
  std::int64_t segments = 0; ///< microbatches of a pipeline: S; 0: as many as there are stages
  PipelineSchedule schedule = PipelineSchedule::gpipe;
  /// Exact mode: the memory of this program; null: two copies of all items, as in the paper.
  std::shared_ptr<const ProgramMemory> memory{};
};

/// Seconds of one row on one rank that has all of it.
struct LayerTime {
  double forward = 0.0, backward = 0.0; ///< per sample
  double update = 0.0;                  ///< per step
  double perSample() const { return forward + backward; }
};

constexpr double bytes_per_item = 4.0; ///< delta

/// What paper mode leaves open.
struct PaperForm {
  /// data+spatial: a single ring for gradients and halos as in `spatial`, without a gather, instead of the
  /// authors' program.
  bool flat_data_spatial = false;
  /// data+spatial: count the computation after the last divided layer, which the authors' program leaves out.
  bool counts_tail = false;
};

/// The cost model of ParaDL (Kahira, Nguyen et al., HPDC 2021, arXiv 2104.09075) for one network, cluster and
/// mode.
class CostModel {
 public:
  CostModel(CostTask task, Cluster cluster, CostMode mode, PaperForm form = {});

  /// Does the mode have this strategy? The paper has no grids.
  bool has(CostStrategy strategy) const;
  /// Cost of a strategy that the mode has.
  Prediction predict(CostStrategy strategy, std::int64_t ranks) const;

  const CostTask& task() const { return _task; }
  const std::vector<LayerTime>& times() const { return _times; } ///< one per row of the task

 private:
  CostTask _task;
  Cluster _cluster;
  CostMode _mode;
  PaperForm _form;
  std::vector<LayerTime> _times;
};

} // namespace partita
