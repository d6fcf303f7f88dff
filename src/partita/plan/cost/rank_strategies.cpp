#include "partita/plan/cost/rank_strategies.hpp"

#include <algorithm>

namespace partita {

namespace {

bool isLocal(CostStrategy strategy) {
  return isOwn(strategy) && !isPipeline(strategy);
}

/// The strategies of a number of stages.
std::vector<CostStrategy> strategiesOf(std::int64_t stages, std::int64_t ranks, bool local) {
  std::vector<CostStrategy> found;
  if (stages > 1) {
    found = {CostStrategy::pipeline_message_driven,
             CostStrategy::pipeline_1f1b,
             CostStrategy::pipeline_1f1b_eager,
             CostStrategy::pipeline_gpipe,
             CostStrategy::sil_free,
             CostStrategy::sil_frozen,
             CostStrategy::sil_relay};
  } else {
    found = {ranks > 1 ? CostStrategy::data : CostStrategy::serial};
    if (ranks > 1) found.push_back(CostStrategy::local_sgd);
  }
  if (!local) found.erase(std::remove_if(found.begin(), found.end(), isLocal), found.end());
  return found;
}

std::vector<std::int64_t> microbatchesFor(const CostTask& task, CostStrategy strategy, std::int64_t stages) {
  if (!isPipeline(strategy)) return {0};
  if (task.segments > 0) return {task.segments};
  return {stages, 2 * stages, 4 * stages, 8 * stages};
}

} // namespace

std::vector<Prediction> rankStrategies(const CostTask& task, const Cluster& cluster, std::int64_t ranks,
                                       bool local) {
  std::vector<Prediction> predictions;
  for (std::int64_t stages = 1; stages <= std::min(ranks, cuttableLayers(task.layers)); ++stages) {
    if (ranks % stages != 0) continue;
    for (const CostStrategy strategy : strategiesOf(stages, ranks, local)) {
      for (const std::int64_t segments : microbatchesFor(task, strategy, stages)) {
        CostTask cut = task;
        cut.stages = stages;
        cut.segments = segments;
        predictions.push_back(CostModel(cut, cluster, CostMode::exact).predict(strategy, ranks));
      }
    }
  }
  std::stable_sort(predictions.begin(), predictions.end(), [](const Prediction& a, const Prediction& b) {
    if (a.feasible() != b.feasible()) return a.feasible();
    return a.feasible() && a.epochSeconds() < b.epochSeconds();
  });
  return predictions;
}

} // namespace partita
