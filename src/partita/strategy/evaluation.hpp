#pragma once

#include "partita/strategy/run_context.hpp"
#include "partita/strategy/stage_updater.hpp"

#include <functional>
#include <utility>

namespace partita {

/// Result of a forward pass over a set: one value per stage if stages have labels of their own, otherwise one
/// for the network. Accuracy is a share of the labels, loss a mean over them; a sample of tokens has one
/// label per position.
struct Evaluation {
  std::vector<double> accuracy, loss;
  /// Accuracy of each stage's own prediction; empty unless the joined network adds these up.
  std::vector<double> alone;
};
/// exp of a loss if the network predicts tokens by cross-entropy; 0 for others.
double perplexityOf(const RunConfig& config, const Partition& partition, double loss);
/// Receives what the joined network predicts on the ranks of the last stage that is used, batch by batch, in
/// sample order.
using OutputRows = std::function<void(const TypedMatrix& logits)>;
/// Forward pass through the joined network across ranks. Each stage predicts from the inputs that
/// it gets in the joined network, and the samples are divided among the replicas. If the joined
/// network adds up its exits, the result of a stage is that of the sum up to it. Uses only the
/// first `first_stages` stages; 0: all. Collective. Returns the same result on every rank.
Evaluation evaluateJoined(const ExecSpace& space, const RunConfig& config, Grid& grid,
                          const std::vector<std::unique_ptr<LocalStage>>& stages, const DataSets& sets,
                          const Dataset& set, const OutputRows& outputs = {}, int first_stages = 0);

/// Evaluates during training, as often as the deck says and at the end, on the validation set, or on the test
/// set if there is none, and notifies the observer.
class Evaluator {
 public:
  /// `steps` is the length of the training phase.
  Evaluator(RunContext context, std::int64_t steps) : _context(std::move(context)), _steps(steps) {}

  bool due(std::int64_t step) const;
  /// Call after each step: evaluates if it is due, once the `updaters` have finished their updates. The first
  /// `trained` stages count; `number` is the stage named in the report, 0 for the joined network. Its
  /// seconds, without waits for slower ranks, are subtracted from the training time and from the times of
  /// these updaters.
  void afterStep(const ExecSpace& space, const Position& position, int trained, int number,
                 const std::vector<StageUpdater*>& updaters = {});
  double loss() const { return _loss; } ///< of the last evaluation, at the end of the trained stages

 private:
  RunContext _context;
  std::int64_t _steps;
  double _loss = 0.0;
};

} // namespace partita
