#include <filesystem>

#include "small_run.hpp"
#include "support/catch.hpp"

namespace partita::test::offload {

/// Offloading the state of the optimiser changes no bit of a run, whatever the grid.

namespace {

void checkOffload(int ranks, const Overrides& deck) {
  const std::string expected = trainedHash(ranks, deck);
  for (const char* offload : {"host", "file"}) {
    for (const char* bucket : {"501", "100000"}) { // many buckets, or one
      Overrides overrides = deck;
      overrides.push_back(std::string("optimiser/offload=") + offload);
      overrides.push_back(std::string("optimiser/offload_bucket=") + bucket);
      overrides.push_back("optimiser/offload_directory=" + std::filesystem::temp_directory_path().string());
      INFO(offload << ", " << bucket << ", " << ranks << " ranks, " << deck.front());
      CHECK(trainedHash(ranks, overrides) == expected);
    }
  }
}

} // namespace

TEST_CASE("Offload changes no bit of a run", "[offload]") {
  const Overrides recovers{"optimiser/kind=adamw", "optimiser/weight_decay=0.01", "optimiser/clip_norm=0.5",
                           "run/epochs=1", "strategy/recovery_epochs=1"};
  const Overrides replicas{"optimiser/kind=adam", "strategy/kind=joint", "strategy/replicas=2",
                           "strategy/bucket_kib=1", "optimiser/schedule=step"};
  const Overrides grid{"optimiser/kind=sgd", "strategy/stages=2", "strategy/replicas=2",
                       "strategy/bucket_kib=2", "optimiser/warmup_steps=5"};
  checkOffload(1, recovers);
  if (everyone().size() >= 2) checkOffload(2, replicas);
  if (everyone().size() >= 4) checkOffload(4, grid);
}

} // namespace partita::test::offload
