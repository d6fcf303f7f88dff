#include "partita/plan/partition.hpp"

#include "partita/config/user_error.hpp"
#include "partita/plan/balanced_cuts.hpp"
#include "partita/plan/layer_rules.hpp"
#include "partita/plan/memory_between_cuts.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/stage_maker.hpp"
#include "partita/plan/stage_plan.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <limits>

namespace partita {

double Partition::allowedSpeedup() const {
  double slowest = 0.0;
  for (const Effort& stage : local) slowest = std::max(slowest, stage.total());
  return joint.total() / slowest;
}

namespace {

using Layers = std::vector<LayerPlan>;

/// Of layers [0, i), by i.
std::vector<std::int64_t> parametersBefore(const Layers& layers) {
  std::vector<std::int64_t> parameters{0};
  for (const LayerPlan& layer : layers) parameters.push_back(parameters.back() + layer.parameters());
  return parameters;
}

/// The cost of a stage without parameters. It has nothing to learn, however well it would balance the others.
constexpr double learns_nothing = 1e100;

std::vector<std::int64_t> cutsByFlops(const RunConfig& config, const Layers& layers, int stages) {
  const StrategySection& strategy = config.strategy;
  const StrategyPlan& plan = planOf(strategy);
  const std::int64_t n = layers.size();
  const TrainingEffort effort(layers);
  const std::vector<std::int64_t> parameters = parametersBefore(layers);
  std::vector<Effort> at_end; // of stages that end before layer i
  for (std::int64_t last = 0; last <= n; ++last)
    at_end.push_back(parameters[static_cast<std::size_t>(last)] > 0 ? plan.headEffort(strategy, layers, last)
                                                                    : Effort{});
  const bool crosses = plan.gradientsCross();
  const auto cost = [&](std::int64_t first, std::int64_t last, int index) {
    const std::size_t begin = first, end = last;
    if (parameters[begin] == parameters[end]) return learns_nothing;
    const bool gradient_leaves = index > 0 && crosses;
    const Effort own = gradient_leaves ? effort.withInputGradient(first, last) : effort.of(first, last);
    return (own + at_end[end] + plan.extraEffort(strategy, layers, first, last, index)).total();
  };
  return balancedCuts(n, stages, cost, [&](std::int64_t first, std::int64_t last, int index) {
    constexpr double rounding = 1.0 - 1e-9;
    const bool gradient_leaves = index > 0 && crosses;
    return rounding *
           (gradient_leaves ? effort.withInputGradient(first, last) : effort.atLeast(first, last)).total();
  });
}

std::vector<std::int64_t> cutsByMemory(const RunConfig& config, const Layers& layers, std::int64_t real_bytes,
                                       double most_bytes, int stages) {
  const int replicas = static_cast<int>(std::max<std::int64_t>(1, config.strategy.replicas));
  RunConfig on_any_rank = config; // prefetching depends on the cores of a rank, which may differ
  on_any_rank.data.prefetch = 0;
  const LeastMemory least(config, layers, stages, replicas, real_bytes);
  const MemoryBetweenCuts memory(on_any_rank, layers, stages, replicas, {real_bytes});
  const std::vector<std::int64_t> parameters = parametersBefore(layers);
  const auto if_fits = [most_bytes](double bytes) {
    return bytes <= most_bytes ? bytes : std::numeric_limits<double>::infinity();
  };
  const auto bound = [&](std::int64_t first, std::int64_t last, int index) {
    return if_fits(least.of(first, last, index));
  };
  const auto cost = [&](std::int64_t first, std::int64_t last, int index) {
    if (parameters[static_cast<std::size_t>(first)] == parameters[static_cast<std::size_t>(last)])
      return std::max(learns_nothing, bound(first, last, index));
    return if_fits(static_cast<double>(memory.of(first, last, index)));
  };
  return balancedCuts(static_cast<std::int64_t>(layers.size()), stages, cost, bound);
}

/// The cuts that `strategy/cuts` balances.
std::vector<std::int64_t> cutsByRule(const RunConfig& config, const Layers& layers, std::int64_t real_bytes,
                                     double most_bytes, int stages) {
  const std::int64_t n = layers.size();
  if (stages == n) return balancedCuts(n, stages, nullptr); // nothing to choose
  return config.strategy.cut_rule == CutRule::flops
             ? cutsByFlops(config, layers, stages)
             : cutsByMemory(config, layers, real_bytes, most_bytes, stages);
}

void checkTies(const StagePlan& stage) {
  const std::vector<const LayerPlan*> leaves = leavesOf(stage.layers);
  if (leaves.empty() || !leaves.front()->rules().table(*leaves.front()).empty()) return;
  for (const LayerPlan* leaf : leaves) {
    if (leaf->rules().tied(*leaf))
      throw UserError(leaf->entry + " is tied to the embedding, which is in another stage; remove `tied`");
  }
}

/// Adds the stages between the cuts, each alone.
void addStages(Partition& partition, const RunConfig& config, const Layers& layers, int stages) {
  const StrategySection& strategy = config.strategy;
  const StrategyPlan& plan = planOf(strategy);
  const std::int64_t n = layers.size();
  const StageMaker maker(config, layers);
  std::int64_t first = 0;
  for (int index = 0; index < stages; ++index) {
    const std::int64_t last = index + 1 < stages ? partition.cuts[index] : n;
    if (last <= first || last > n) {
      throw UserError("strategy/cuts: each of the " + std::to_string(stages) +
                      " stages needs at least one of the " + std::to_string(n) +
                      " layers; cuts must increase, and count layers from 0");
    }
    partition.stages.push_back(maker.stage(first, last, index, stages));
    const StagePlan& stage = partition.stages.back();
    partition.local.push_back(stage.trainEffort(index > 0 && plan.gradientsCross()) +
                              plan.headEffort(strategy, layers, last) +
                              plan.extraEffort(strategy, layers, first, last, index));
    first = last;
  }
}

/// Beyond this, byte counts of a stage would overflow their integer type.
void checkBatch(const RunConfig& config, const Layers& layers) {
  constexpr double most_values = 1e16;
  double values = 1.0; // of a sample
  for (const std::int64_t extent : layers.front().in) values *= static_cast<double>(extent);
  for (const LayerPlan* leaf : leavesOf(layers)) values += static_cast<double>(leaf->outputs());
  const std::int64_t batch = config.training.batch,
                     rows = std::max(batch, planOf(config.strategy).passRows(config.strategy, batch, 1));
  if (static_cast<double>(rows) * values > most_values)
    throw UserError("training/batch: a batch would have more than 10^16 values in all layers");
}

} // namespace

Partition planPartition(const RunConfig& config, const Layers& layers, std::int64_t classes,
                        std::int64_t real_bytes, double most_bytes) {
  const StrategySection& strategy = config.strategy;
  const std::int64_t n = layers.size();
  const StrategyPlan& plan = planOf(strategy);
  const int stages = plan.stages(strategy);
  if (stages > n) {
    throw UserError("strategy/stages: " + std::to_string(stages) +
                    " stages need at least as many layers, but the network has " + std::to_string(n));
  }
  checkBatch(config, layers);
  Partition partition;
  if (stages > 1) {
    partition.cuts = strategy.cut_rule == CutRule::list
                         ? strategy.cuts
                         : cutsByRule(config, layers, real_bytes, most_bytes, stages);
  }
  addStages(partition, config, layers, stages);
  partition.stages.back().divisible_loss =
      config.training.loss == LossKind::cross_entropy && plan.gradientsCross();
  const PlaceGrid grid = placeGridOf(layers, strategy);
  for (StagePlan& stage : partition.stages) stage.place_grid = grid;
  for (const StagePlan& stage : partition.stages) checkTies(stage);
  for (const ParameterCopy& copy : plan.copies(strategy, partition.stages)) {
    partition.stages[static_cast<std::size_t>(copy.from_stage)].copies.push_back(copy);
    partition.stages[static_cast<std::size_t>(copy.to_stage)].copies.push_back(copy);
  }
  partition.joint = TrainingEffort(layers).of(0, n);
  plan.checkStages(strategy, partition.stages, classes);
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
