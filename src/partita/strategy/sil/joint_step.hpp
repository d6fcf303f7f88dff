#pragma once

#include "partita/comm/message.hpp"
#include "partita/strategy/run_context.hpp"
#include "partita/strategy/sil/batch_source.hpp"
#include "partita/strategy/stage_updater.hpp"

#include <memory>

namespace partita {

/// The steps of a relay in which gradients cross the cuts (`strategy/joint_every`). Each stage runs forward
/// as in any other step; then the gradient of the last stage's loss goes back through all stages. The head of
/// a stage learns from the stage's own loss, but the gradient of that loss ends there.
class JointStep {
 public:
  /// `first`: steps already taken. Collective over the ranks of a chain.
  JointStep(const RunContext& context, std::vector<StageUpdater*> updaters, std::int64_t first);

  /// Is step `number`, counted from 1, such a step?
  static bool due(const StrategySection& strategy, std::int64_t number);
  /// Takes the step: `sources` has one source for each stage of this rank, `onward` is null on the last rank.
  void run(const ExecSpace& space, const std::vector<BatchSource>& sources, Sender* onward);
  void finish(); ///< after the last step: waits until all gradients have been received

 private:
  void forward(const ExecSpace& space, const std::vector<BatchSource>& sources, Sender* onward);
  void backward(const ExecSpace& space);
  TypedMatrix inputGradient(std::size_t stage) const;

  const RunContext& _context;
  std::vector<StageUpdater*> _updaters;
  std::vector<Pass> _passes;
  std::vector<TypedMatrix> _inputs;
  TypedMatrix _gradient_of_loss; ///< with respect to the output of the last stage
  std::vector<Stage::GradientReady> _ready;
  TypedRows _to_previous; ///< gradient for the previous rank
  std::unique_ptr<Sender> _back;
  std::unique_ptr<Receiver> _from_next;
};

} // namespace partita
