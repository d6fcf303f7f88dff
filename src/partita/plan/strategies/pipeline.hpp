#pragma once

#include "partita/plan/strategy_plan.hpp"

namespace partita {

/// Trains the whole network by back-propagation, in microbatches.
class PipelinePlan : public StrategyPlan {
 public:
  void normalise(StrategySection& section) const override {
    section.sil.input = StageInput::relay;
    section.sil.recovery_epochs = 0;
  }

  bool gradientsCross() const override { return true; }
  bool usesMicrobatches(const StrategySection&) const override { return true; }
  std::int64_t passRows(const StrategySection& section, std::int64_t batch,
                        std::int64_t replicas) const override {
    return microbatchRows(section, largestShare(batch, replicas));
  }

  void addTraining(StageMemory& memory, const StageBuffers& buffers, const StrategySection&,
                   std::int64_t more_tapes) const override {
    memory.activations += more_tapes;
    memory.buffers = buffers.ofPipeline();
  }

  void checkStages(const StrategySection& section, const std::vector<StagePlan>& stages,
                   std::int64_t classes) const override;

  std::string course(const StrategySection&) const override { return "gradients of the whole network"; }

  /// With these microbatches.
  double allowedSpeedup(const RunConfig& config, const Partition& partition,
                        const GridPlan& grid) const override;

  PlanNotes notes(const RunConfig& config, const Partition& partition, const GridPlan& grid,
                  std::int64_t real_bytes) const override;
};

/// A pipeline of one stage.
class JointPlan : public PipelinePlan {
 public:
  void normalise(StrategySection& section) const override {
    PipelinePlan::normalise(section);
    section.stages = 1;
    section.cuts.clear();
    section.cut_rule = CutRule::flops;
  }
  int stages(const StrategySection&) const override { return 1; }
};

} // namespace partita
