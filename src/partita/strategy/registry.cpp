#include "partita/core/error.hpp"
#include "partita/strategy/hogbatch/hogbatch.hpp"
#include "partita/strategy/local_sgd/local_sgd.hpp"
#include "partita/strategy/pipeline/pipeline.hpp"
#include "partita/strategy/sil/sil.hpp"
#include "partita/strategy/strategy.hpp"

namespace partita {

void StrategyRules::repeat(RunConfig&, const std::string&) const {
  PARTITA_FAIL("a strategy that makes no decisions");
}

void StrategyRules::leaveOut(const std::vector<int>&, const StrategySection&, const Communicator&,
                             MeetingState&) const {
  PARTITA_FAIL("a strategy that cannot lose ranks");
}

StrategySection StrategyRules::withoutRanks(const StrategySection&, const std::vector<int>&) const {
  PARTITA_FAIL("a strategy that cannot lose ranks");
}

const StrategyRules& rulesOf(const StrategySection& section) {
  switch (section.kind) {
  case StrategyKind::joint: // a pipeline of one stage
  case StrategyKind::pipeline:
    return pipelineRules();
  case StrategyKind::sil:
    return silRules();
  case StrategyKind::local_sgd:
    return localSgdRules();
  case StrategyKind::hogbatch:
    return hogbatchRules();
  }
  PARTITA_FAIL("a kind of strategy that is not registered");
}

} // namespace partita
