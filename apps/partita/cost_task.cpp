#include "cost_task.hpp"

#include "partita/data/load_data.hpp"
#include "partita/plan/network_plan.hpp"

#include <filesystem>

namespace partita {

CostTask costTaskOf(const std::string& path, const RunConfig& config, const Cluster& cluster) {
  const DataSets sets = loadData(config.data, config.run.seed, Need::labels_only);
  const PipelineSection& pipeline = config.strategy.pipeline;
  CostTask task;
  std::vector<LayerPlan> layers = planNetwork(config.network, sets.shape, sets.classes);
  task.layers = layerCosts(layers);
  task.timing = cluster.timing(std::filesystem::path(path).stem().string());
  task.samples = static_cast<double>(sets.train.size());
  task.batch = static_cast<double>(config.training.batch);
  task.segments = pipeline.microbatches > 1 ? pipeline.microbatches : 0;
  task.schedule = pipeline.schedule;
  task.memory = std::make_shared<ProgramMemory>(config, std::move(layers));
  return task;
}

} // namespace partita
