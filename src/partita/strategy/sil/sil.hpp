#pragma once

#include "partita/data/augmentation.hpp"
#include "partita/strategy/evaluation.hpp"
#include "partita/strategy/sil/activation_cache.hpp"
#include "partita/strategy/sil/batch_source.hpp"
#include "partita/strategy/sil/frozen_stream.hpp"
#include "partita/strategy/stage_trainer.hpp"
#include "partita/strategy/strategy.hpp"

#include <memory>

namespace partita {

/// Training by synthetic intermediate labels: every stage learns alone, with its own loss, and no gradient
/// crosses a cut. With one stage this is conventional training.
class SilTraining final : public Strategy {
 public:
  explicit SilTraining(const RunContext& context);

  /// Trains all stages from the position in the context, followed by the recovery if the deck asks for it.
  /// Evaluations happen after whole epochs, as the deck says.
  bool run(const ExecSpace& space) override;

 private:
  bool trainStages(const ExecSpace& space);
  bool trainTogether(const ExecSpace& space); // free and relay: all stages at once
  bool trainOneByOne(const ExecSpace& space); // frozen
  bool trainFrozen(const ExecSpace& space, int stage, std::int64_t first); // one stage, after a finished one
  bool waitForOthers(const ExecSpace& space, FrozenStream& stream, int stage, std::int64_t first);
  // Of a stage that has ended, or was interrupted after `steps` steps.
  void remakeInputs(const ExecSpace& space, int stage, std::int64_t steps);
  std::unique_ptr<Sender> makeSender();
  std::unique_ptr<ActivationCache> makeCache(int stage) const;
  void step(const ExecSpace& space, StageTrainer& trainer, const BatchSource& source, Sender* onward);
  void report(const ExecSpace& space, StageUpdater& updater, const Position& position);
  bool afterStep(const ExecSpace& space, const Position& position, int trained,
                 const std::vector<StageUpdater*>& updaters);

  std::unique_ptr<StageTrainer> makeTrainer(LocalStage& local);
  bool beginTraining(const ExecSpace& space, StageUpdater& updater, bool resumed);
  /// Batches of the training set from number `first` to the last one of the run.
  std::unique_ptr<BatchReader> makeReader(const RowSource* rows, std::int64_t first) const;
  BatchSource makeTogetherSource(std::size_t local);

  RunContext _context;
  FeatureRows _features;                   ///< what a finished stage computes its outputs from
  TrainingRows _training_rows;             ///< what the first stage learns from
  std::unique_ptr<ActivationCache> _cache; ///< frozen: inputs of the stage trained last on this rank
  Evaluator _evaluator;
};

const StrategyRules& silRules();

} // namespace partita
