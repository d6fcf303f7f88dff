#include "partita/config/deck.hpp"
#include "partita/core/log.hpp"
#include "partita/plan/effective.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/train/banner.hpp"
#include "partita/train/check_plans.hpp"
#include "partita/train/training_run.hpp"

namespace partita {

void dryRun(const RunConfig& deck, int ranks) {
  Log::info(writeDeck(deck));
  const RunConfig config = effective(deck);
  const DataSets sets = loadData(config.data, static_cast<std::uint64_t>(config.run.seed), Need::everything);
  const Partition partition = planPartition(config, planNetwork(config.network, sets.shape, sets.classes),
                                            sets.classes, sizeof(Real));
  checkLabels(partition, sets);
  const GridPlan grid = planGrid(config.strategy, partition, ranks);
  checkTraining(config, sets, partition, grid);
  const RunLength count = planRunLength(config, sets.train.size());
  Log::info("# data: " + std::to_string(sets.train.size()) + " training, " +
            std::to_string(sets.validation.size()) + " validation, " + std::to_string(sets.test.size()) +
            " test samples of " + std::to_string(sets.width()) + " values, " + std::to_string(sets.classes) +
            " classes; " + std::to_string(count.steps) + " steps a stage");
  showPartition(config, partition, grid,
                deviceKind(chooseMessagePaths(config.run.device_aware_mpi, config.strategy.wire)));
  Log::info("# nothing was run");
}

} // namespace partita
