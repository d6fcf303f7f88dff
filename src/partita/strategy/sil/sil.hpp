#pragma once

#include "partita/strategy/evaluation.hpp"
#include "partita/strategy/run_context.hpp"
#include "partita/strategy/sil/activation_cache.hpp"
#include "partita/strategy/sil/batch_source.hpp"
#include "partita/strategy/stage_trainer.hpp"

#include <memory>

namespace partita {

/// Training by synthetic intermediate labels: every stage learns alone, with its own loss; no gradient
/// crosses a cut. With one stage this is conventional training.
class SilTraining {
 public:
  explicit SilTraining(const RunContext& context);

  /// Trains all stages; collective. Evaluations happen after whole epochs, as the deck says.
  RunTimes run(const ExecSpace& space);

 private:
  void trainTogether(const ExecSpace& space);          // free and relay: all stages at once
  void trainFrozen(const ExecSpace& space, int stage); // one stage, behind a finished one
  void step(const ExecSpace& space, StageTrainer& trainer, BatchSource& source, Sender* onward);

  std::unique_ptr<StageTrainer> makeTrainer(LocalStage& local);
  std::unique_ptr<BatchReader> makeReader(const RowSource* rows, std::int64_t count,
                                          std::int64_t first_epoch) const;
  std::unique_ptr<BatchSource> makeTogetherSource(std::size_t local);
  std::string cacheFolder() const;

  RunContext _context;
  StepCount _count;
  FeatureRows _features;
  std::unique_ptr<ActivationCache> _cache; ///< frozen: inputs of the stage trained last on this rank
  Evaluator _evaluator;
  RunTimes _times;
};

} // namespace partita
