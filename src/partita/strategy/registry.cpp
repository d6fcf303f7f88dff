#include "partita/core/error.hpp"
#include "partita/strategy/hogbatch/hogbatch.hpp"
#include "partita/strategy/hogbatch/replay.hpp"
#include "partita/strategy/local_sgd/local_sgd.hpp"
#include "partita/strategy/pipeline/pipeline.hpp"
#include "partita/strategy/sil/activation_cache.hpp"
#include "partita/strategy/sil/sil.hpp"
#include "partita/strategy/strategy.hpp"

namespace partita {

void checkFiles(const RunConfig& config, const RunLength& length, std::int64_t samples,
                const std::string& scratch) {
  const StrategySection& strategy = config.strategy;
  if (length.turns > 1) ActivationCache(cacheFolder(strategy.sil, scratch), Precision::single, 1);
  if (!strategy.hogbatch.replay.empty()) readUpdates(config, SampleProgress(config, length, samples));
}

std::unique_ptr<Strategy> makeStrategy(const RunContext& context) {
  switch (context.config.strategy.kind) {
  case StrategyKind::joint: // a pipeline of one stage
  case StrategyKind::pipeline:
    return std::make_unique<PipelineTraining>(context, RunPhase::training);
  case StrategyKind::sil:
    return std::make_unique<SilTraining>(context);
  case StrategyKind::local_sgd:
    return std::make_unique<LocalSgdTraining>(context);
  case StrategyKind::hogbatch:
    if (!context.config.strategy.hogbatch.replay.empty()) return std::make_unique<HogbatchReplay>(context);
    return std::make_unique<HogbatchTraining>(context);
  }
  PARTITA_FAIL("a kind of strategy that is not registered");
}

} // namespace partita
