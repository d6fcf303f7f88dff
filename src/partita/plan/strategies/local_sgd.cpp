#include "partita/config/names.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/layer_rules.hpp"
#include "partita/plan/strategies/pipeline.hpp"
#include "partita/plan/strategies/table.hpp"

#include <algorithm>

namespace partita {

namespace {

bool looksAtAllReplicas(const std::vector<LayerPlan>& layers) {
  const std::vector<const LayerPlan*> leaves = leavesOf(layers);
  return std::any_of(leaves.begin(), leaves.end(),
                     [](const LayerPlan* layer) { return layer->rules().acrossReplicas(*layer); });
}

/// Replicas of the whole network that train independently between meetings.
class LocalSgdPlan final : public JointPlan {
 public:
  void checkStages(const StrategySection&, const std::vector<StagePlan>& stages,
                   std::int64_t) const override {
    for (const StagePlan& stage : stages) {
      if (looksAtAllReplicas(stage.layers))
        throw UserError("network/layers: a batch-norm with replicas = true needs all replicas in every step, "
                        "but replicas of strategy/kind 'local-sgd' communicate only at intervals");
    }
  }

  /// Two kernels, the difference from the last meeting and the step, read and write values; a copied value is
  /// read and written.
  Meetings meetings(const StrategySection& section) const override {
    const bool nesterov = section.local_sgd.outer == OuterStep::nesterov;
    return {section.local_sgd.every, (3.0 + (nesterov ? 6.0 : 4.0)) / 2.0, section.local_sgd.warmup_steps};
  }
  bool meetsAfter(const StrategySection& section, std::int64_t step) const override {
    return step <= section.local_sgd.warmup_steps || step % section.local_sgd.every == 0;
  }
  std::vector<std::string> keptStates(const StrategySection& section, const StagePlan&) const override {
    if (section.local_sgd.outer == OuterStep::average) return {"last_meeting"};
    return {"last_meeting", "outer_momentum"};
  }
  bool streamsKeptStates() const override { return true; }
  std::string course(const StrategySection&) const override { return "replicas that meet"; }

  PlanNotes notes(const RunConfig& config, const Partition& partition, const GridPlan& grid,
                  std::int64_t real_bytes) const override {
    PlanNotes notes = JointPlan::notes(config, partition, grid, real_bytes);
    const LocalSgdSection& section = config.strategy.local_sgd;
    const std::string every = std::to_string(section.every);
    std::string line =
        "# " + counted(grid.replicas, "replica") + ": every " +
        (section.every == 1 ? "step" : every + " steps") +
        (section.outer == OuterStep::average ? " they average their parameters"
                                             : " they take an outer step with Nesterov momentum");
    if (section.every == 1)
      line += ", with as much traffic as summed gradients";
    else
      line += ", with 1/" + every + " of the traffic of summed gradients" +
              (section.warmup_steps > 0 ? "; " + counted(section.warmup_steps, "step") +
                                              " at the start and the last one also end with a meeting"
                                        : "; the last step also ends with a meeting");
    notes.lines.push_back(line);
    return notes;
  }

  std::vector<std::pair<std::string, std::string>> facts(const StrategySection& section) const override {
    return {{"outer", nameOf(section.local_sgd.outer)}, {"every", std::to_string(section.local_sgd.every)}};
  }
};

} // namespace

const StrategyPlan& localSgdPlan() {
  static const LocalSgdPlan plan;
  return plan;
}

} // namespace partita
