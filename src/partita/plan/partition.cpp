#include "partita/plan/partition.hpp"

#include "partita/config/user_error.hpp"
#include "partita/plan/balanced_cuts.hpp"
#include "partita/plan/effective.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/stage_memory.hpp"
#include "partita/plan/training_flops.hpp"

#include <algorithm>

namespace partita {

double Partition::allowedSpeedup() const {
  return joint_flops / *std::max_element(local_flops.begin(), local_flops.end());
}

namespace {

using Layers = std::vector<LayerPlan>;

/// FLOPs of one sample through a stage trained alone besides its layers: its local loss, its synthetic input.
double labelFlops(const StrategySection& sil, std::int64_t classes, std::int64_t inputs, std::int64_t outputs,
                  int index, int stages) {
  if (!usesLabels(sil)) return 0.0;
  double flops = 0.0;
  const double label_product = 2.0 * static_cast<double>(classes);
  if (index + 1 < stages && sil.loss == StageLoss::prototype) {
    flops += 2.0 * label_product * static_cast<double>(outputs); // logits and their gradient
  }
  if (index > 0 && mixesLabels(sil)) flops += label_product * static_cast<double>(inputs);
  return flops;
}

/// The cuts that `strategy/cuts` balances.
std::vector<std::int64_t> cutsByRule(const RunConfig& config, const Layers& layers, std::int64_t classes,
                                     std::int64_t real_bytes, int stages) {
  const StrategySection& strategy = config.strategy;
  const auto n = static_cast<std::int64_t>(layers.size());
  const TrainingFlops flops(layers);
  const int replicas = static_cast<int>(std::max<std::int64_t>(1, strategy.replicas));
  RunConfig on_any_rank = config; // what ranks make ahead depends on their cores, which may differ
  on_any_rank.data.prefetch = 0;
  return balancedCuts(n, stages, [&](std::int64_t first, std::int64_t last, int index) {
    if (strategy.cut_rule == CutRule::flops) {
      const std::int64_t inputs = layers[static_cast<std::size_t>(first)].inputs(),
                         outputs = layers[static_cast<std::size_t>(last - 1)].outputs();
      const bool gradient_leaves = index > 0 && !usesLabels(strategy);
      return (gradient_leaves ? flops.withInputGradient(first, last) : flops.of(first, last)) +
             labelFlops(strategy, classes, inputs, outputs, index, stages);
    }
    const StagePlan stage = makeStage(strategy, layers, first, last, index, stages);
    return static_cast<double>(
        stageMemory(stage, on_any_rank, {index, stages, replicas}, {real_bytes}).total());
  });
}

/// Labels of tokens are met at each position.
void checkPositions(const StagePlan& stage, std::int64_t positions) {
  const LayerPlan& last = stage.layers.back();
  const bool fits = positions == 1 || (isSequence(last.out) && last.out[0] == positions);
  if (fits) return;
  throw UserError("strategy/cuts: behind " + last.name() + " a sample has the shape " + toText(last.out) +
                  "; a network that tells " + std::to_string(positions) +
                  " tokens can only be cut where it has as many positions");
}

void checkTies(const StagePlan& stage) {
  const std::vector<const LayerPlan*> leaves = leavesOf(stage.layers);
  if (leaves.empty() || leaves.front()->spec.type == "embedding") return;
  for (const LayerPlan* leaf : leaves) {
    if (leaf->spec.tied)
      throw UserError(leaf->entry + " is tied to the embedding, which is in another stage; leave `tied` out");
  }
}

void checkLabels(const StrategySection& strategy, const Partition& partition, std::int64_t classes) {
  if (!usesLabels(strategy)) return;
  const bool orthogonal = strategy.labels == LabelKind::orthogonal || strategy.labels == LabelKind::etf;
  for (std::size_t i = 0; i + 1 < partition.stages.size(); ++i) {
    if (partition.stages[i].parameters() == 0)
      throw UserError("strategy/cuts: stage " + std::to_string(i + 1) + " has no parameters to learn");
    checkPositions(partition.stages[i], partition.stages[i].positions);
    const std::int64_t width = partition.stages[i].labelWidth();
    if ((orthogonal || strategy.labels == LabelKind::block) && width < classes) {
      throw UserError("strategy/labels: orthogonal, etf and block labels need at least as many units at a "
                      "cut as there are classes; "
                      "stage " +
                      std::to_string(i + 1) + " ends with " + std::to_string(width) + " units for " +
                      std::to_string(classes) +
                      " classes (choose gaussian, sign or uniform, or another cut)");
    }
  }
}

} // namespace

Partition planPartition(const RunConfig& config, const Layers& layers, std::int64_t classes,
                        std::int64_t real_bytes) {
  const StrategySection& strategy = config.strategy;
  const auto n = static_cast<std::int64_t>(layers.size());
  const int stages = strategy.kind == StrategyKind::joint ? 1 : static_cast<int>(strategy.stages);
  if (stages > n) {
    throw UserError("strategy/stages: " + std::to_string(stages) +
                    " stages need as many layers, the network has " + std::to_string(n));
  }
  Partition partition;
  if (stages > 1) {
    partition.cuts = strategy.cut_rule == CutRule::list
                         ? strategy.cuts
                         : cutsByRule(config, layers, classes, real_bytes, stages);
  }
  std::int64_t first = 0;
  for (int index = 0; index < stages; ++index) {
    const std::int64_t last = index + 1 < stages ? partition.cuts[static_cast<std::size_t>(index)] : n;
    if (last <= first || last > n) {
      throw UserError("strategy/cuts: each of the " + std::to_string(stages) +
                      " stages needs at least one of the " + std::to_string(n) +
                      " layers; cuts count layers from 0 and increase");
    }
    partition.stages.push_back(makeStage(strategy, layers, first, last, index, stages));
    const StagePlan& stage = partition.stages.back();
    partition.local_flops.push_back(
        stage.trainFlops(index > 0 && !usesLabels(strategy)) +
        labelFlops(strategy, classes, stage.inputs(), stage.outputs(), index, stages));
    first = last;
  }
  for (const StagePlan& stage : partition.stages) checkTies(stage);
  partition.joint_flops = makeStage(strategy, layers, 0, n, 0, 1).trainFlops(false);
  checkLabels(strategy, partition, classes);
  return partition;
}

RunConfig withFixedCuts(RunConfig config, const Shape& input, std::int64_t classes, std::int64_t real_bytes) {
  const RunConfig known = effective(config);
  if (known.strategy.stages == 1 || known.strategy.cut_rule == CutRule::list) return config;
  const std::vector<LayerPlan> layers = planNetwork(known.network, input, classes);
  config.strategy.cuts = planPartition(known, layers, classes, real_bytes).cuts;
  config.strategy.cut_rule = CutRule::list;
  return config;
}

} // namespace partita
