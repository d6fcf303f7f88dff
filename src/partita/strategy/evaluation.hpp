#pragma once

#include "partita/strategy/run_context.hpp"
#include "partita/strategy/stage_updater.hpp"

#include <functional>
#include <utility>

namespace partita {

/// What a forward pass over a set came to: a value a stage where stages have labels of their own, else that
/// of the network alone; shares and means of the labels, of which a sample of tokens has one each position.
struct Evaluation {
  std::vector<double> accuracy, loss;
};
/// Gets the outputs of the joined network on the ranks of the last stage, batch by batch, in the order of the
/// samples.
using OutputRows = std::function<void(const Matrix& logits)>;
/// Forward only through the joined network across ranks: each stage decodes on the inputs it really gets,
/// replicas share the samples out. Collective. The same result on every rank.
Evaluation evaluateJoined(const ExecSpace& space, const RunConfig& config, Grid& grid,
                          const std::vector<std::unique_ptr<LocalStage>>& stages, const DataSets& sets,
                          const Dataset& set, const OutputRows& outputs = {});

/// Evaluates while a strategy trains, as often as the deck says and at the end, on the validation set or,
/// where there is none, on the test set; tells the observer.
class Evaluator {
 public:
  /// `steps` is the length of the phase of training.
  Evaluator(RunContext context, std::int64_t steps) : _context(std::move(context)), _steps(steps) {}

  bool due(std::int64_t step) const;
  /// After a step: evaluates if it is due. `trained` stages count, from the first; `number` is the stage that
  /// the report names, 0 for the joined network. Returns the seconds it took, waiting for slower ranks left
  /// out, and takes them out of the training time.
  double afterStep(const ExecSpace& space, const Position& position, int trained, int number);

 private:
  RunContext _context;
  std::int64_t _steps;
};

} // namespace partita
