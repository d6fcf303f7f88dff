#include "partita/config/user_error.hpp"
#include "partita/strategy/strategy.hpp"

#include <algorithm>

#include "small_run.hpp"
#include "support/catch.hpp"
#include "support/file_size_limit.hpp"

namespace partita::test::frozen {

namespace {

/// Bytes of the largest file that this rank may have to make.
std::int64_t largestInput(const SmallRun& run) {
  std::int64_t most = 0;
  for (const auto& local : run.stages)
    if (!local->stage.plan().first())
      most = std::max(most, local->stage.inputs() * bytesOf(Precision::single));
  return most * static_cast<std::int64_t>(run.sets.train.size());
}

} // namespace

TEST_CASE("A rank reserves the largest inputs of its frozen stages before it trains", "[frozen]") {
  const SmallRun run(everyone(), smallDeck({"strategy/input=frozen", "strategy/replicas=0",
                                            "strategy/cache_directory=/tmp"}));
  const RunLength length = planRunLength(run.config, run.sets.train.size());
  const auto takeFiles = [&](std::int64_t samples) {
    return rulesOf(run.config.strategy).takeFiles(run.config, length, samples, "/nowhere", run.stages);
  };
  const auto samples = static_cast<std::int64_t>(run.sets.train.size());
  const std::int64_t most = largestInput(run);
  const FileSizeLimit limit(static_cast<rlim_t>(most));
  const std::size_t files = std::min<std::size_t>(2, run.stages.size());
  CHECK(takeFiles(samples).size() == files);
  if (most > 0) CHECK_THROWS_AS(takeFiles(samples + 1), SystemError);
}

TEST_CASE("Stages that train at once need no file", "[frozen]") {
  const SmallRun run(everyone(), smallDeck({"strategy/input=relay", "strategy/replicas=0"}));
  const RunLength length = planRunLength(run.config, run.sets.train.size());
  CHECK(rulesOf(run.config.strategy).takeFiles(run.config, length, 600, "/nowhere", run.stages).empty());
}

} // namespace partita::test::frozen
