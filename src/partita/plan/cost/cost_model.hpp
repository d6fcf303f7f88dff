#pragma once

#include "partita/plan/cost/kernel_times.hpp"
#include "partita/plan/cost/layer_cost.hpp"
#include "partita/plan/cost/prediction.hpp"
#include "partita/plan/cost/program.hpp"

#include <memory>

namespace partita {

/// The training whose cost is predicted.
struct CostTask {
  std::vector<LayerCost> layers;
  NetworkTiming timing; ///< of this network on the cluster, if known
  double samples = 1.0; ///< of the training set: D
  double batch = 1.0;   ///< samples per step: B, over all replicas, or per replica
  bool batch_per_replica = false;
  std::int64_t segments = 0; ///< microbatches of a pipeline: S; 0: as many as there are stages
  std::int64_t stages = 0;   ///< of pipelines and of `sil`; more ranks form replicas; 0: one per rank
  /// Ranks that share a layer in pipelines, `sil` and hybrid strategies. 0: 1 in the first two, the ranks of
  /// a node in hybrid ones.
  std::int64_t parts = 0;
  std::shared_ptr<const Program> program{}; ///< for exact mode
};

/// The task of a deck, in exact mode. `shape`, `classes` and `samples` are those of the deck's data, `device`
/// is that of all ranks.
CostTask costTask(const RunConfig& deck, const Shape& shape, std::int64_t classes, std::size_t samples,
                  const DeviceKind& device = {});

/// The network of a task as a row of a cluster file, without times.
NetworkTiming networkOf(const CostTask& task);
/// What a cluster file says about this network; `deck`: the name of its deck, if it is known.
NetworkTiming timingOf(const CostTask& task, const Cluster& cluster, const std::string& deck = "");

/// Number of layers between which the network can be cut.
std::int64_t cuttableLayers(const std::vector<LayerCost>& layers);

/// Seconds of one row on a rank that has the whole row.
struct LayerTime {
  double forward = 0.0, backward = 0.0; ///< per sample
  double update = 0.0;                  ///< per step
  double perSample() const { return forward + backward; }
};

constexpr double bytes_per_item = 4.0; ///< of the paper: delta

struct CostTerms;

/// The cost model of ParaDL (Kahira, Nguyen et al., HPDC 2021, arXiv 2104.09075) for one network, cluster and
/// mode.
class CostModel {
 public:
  /// If the cluster has devices, so have the ranks of the task's program.
  CostModel(CostTask task, Cluster cluster, CostMode mode);

  /// Does the mode have this strategy? The paper has neither grids nor this program's own strategies.
  bool has(CostStrategy strategy) const;
  /// Cost of a strategy that the mode has.
  Prediction predict(CostStrategy strategy, std::int64_t ranks) const;
  /// The same on a given grid.
  Prediction predict(const RankChoice& choice) const;
  /// Exact mode: cost of a plan of this program.
  Prediction predict(const ProgramRun& run) const;
  /// The plan whose cost exact mode predicts. Throws UserError if `train` would refuse it.
  ProgramRun runFor(const Prediction& prediction) const;

  /// The factor by which recomputation lengthens passes over the whole network.
  double recomputedShare() const;

  const CostTask& task() const { return _task; }
  const std::vector<LayerTime>& times() const { return _times; } ///< one per row of the task
  /// Exact mode: seconds of a row in a pass over `samples`, on a rank that has the whole row.
  PassTime passOf(std::size_t row, double samples) const;

 private:
  Prediction start(CostStrategy strategy, std::int64_t ranks, const std::optional<RankGrid>& grid = {}) const;
  void fill(Prediction& prediction) const;
  void predictPlan(Prediction& prediction) const;
  CostTerms terms() const;
  std::vector<LayerTime> exactTimes();
  void checkMemory(Prediction& prediction) const;

  CostTask _task;
  Cluster _cluster;
  CostMode _mode;
  KernelTimes _kernels;
  std::vector<LayerTime> _times;
};

} // namespace partita
