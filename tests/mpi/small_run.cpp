#include "small_run.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/deck.hpp"
#include "partita/data/load_data.hpp"
#include "partita/io/stage_tensors.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/hogbatch/hogbatch.hpp"
#include "partita/strategy/pipeline/pipeline.hpp"
#include "partita/strategy/strategy.hpp"

#include <exception>
#include <filesystem>
#include <stdexcept>

#include "support/at_end.hpp"

namespace partita::test {

namespace {

const char* const deck_text = R"(
[run]
seed = 3
epochs = 2
evaluate_every = 0
log_every = 7
[data]
image_size = 12
classes = 10
samples = 600
test_samples = 130
[network]
layers = [{ type = "dense", units = 32, activation = "relu", repeat = 5 }, { type = "dense" }]
[training]
batch = 40
[optimiser]
kind = "adam"
[strategy]
kind = "sil"
stages = 4
replicas = 1
)";

Partition partitionOf(const RunConfig& config, const DataSets& sets) {
  return planPartition(config, planNetwork(config.network, sets.shape, sets.classes), sets.classes);
}

std::unique_ptr<SharedWindow> windowOf(const RunConfig& config, const Partition& partition,
                                       const Grid& grid) {
  const std::int64_t bytes = rulesOf(config.strategy).windowBytes(config, partition, grid.world().size());
  return bytes == 0 ? nullptr : std::make_unique<SharedWindow>(grid.world(), bytes);
}

} // namespace

Overrides operator+(Overrides first, const Overrides& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

RunConfig smallDeck(const Overrides& overrides) {
  return parseDeck(deck_text, "small deck", overrides);
}

SmallRun::SmallRun(const Communicator& ranks, const RunConfig& deck, const Deal& deal)
    : config(effective(deck)),
      sets(loadData(config.data, static_cast<std::uint64_t>(config.run.seed), Need::labels_only)),
      partition(partitionOf(config, sets)),
      grid(ranks, deal ? deal(partition, ranks.size()) : planGrid(config.strategy, partition, ranks.size()),
           chooseMessagePaths(config)),
      window(windowOf(config, partition, grid)),
      stages(makeLocalStages(config, partition, grid, sets.classes,
                             rulesOf(config.strategy).givenMemory(config, partition, grid, window.get()))) {
  if (grid.group() > 0 || !grid.ownsStages())
    return; // other ranks have no features, so nothing can depend on them
  sets = loadData(config.data, static_cast<std::uint64_t>(config.run.seed), Need::everything);
}

SmallRun& SmallRun::train(StepControl& control) {
  TrainingClock clock;
  const RunLength length = planRunLength(config, sets.train.size());
  const std::string scratch = std::filesystem::temp_directory_path().string();
  RunContext context{config, partition, grid,       sets,    stages,       _observer,     control,
                     clock,  length,    Position{}, scratch, window.get(), decisions_file};
  context.activation_files =
      rulesOf(config.strategy)
          .takeFiles(config, length, static_cast<std::int64_t>(sets.train.size()), scratch, stages);
  const std::unique_ptr<Strategy> strategy = rulesOf(config.strategy).make(context);
  strategy->run(ExecSpace());
  if (const auto* pipeline = dynamic_cast<const PipelineTraining*>(strategy.get()))
    most_live = pipeline->mostLive();
  if (auto* hogbatch = dynamic_cast<HogbatchTraining*>(strategy.get()); hogbatch != nullptr)
    if (grid.world().rank() == 0) workers = hogbatch->state();
  return *this;
}

std::string SmallRun::hash() const {
  std::vector<const Stage*> pointers;
  for (const auto& local : stages) pointers.push_back(&local->stage);
  std::string text = hashParameters(grid, pointers);
  text.resize(64);
  MPI_Bcast(text.data(), 64, MPI_CHAR, grid.plan().first_rank, grid.world().get());
  return text;
}

Evaluation SmallRun::evaluate() {
  return evaluateJoined(ExecSpace(), config, grid, stages, sets, sets.test);
}

std::vector<Real> SmallRun::ownParameters() const {
  std::vector<Real> values;
  for (const auto& local : stages) {
    const StoredVector& masters = local->stage.masters();
    values.resize(values.size() + static_cast<std::size_t>(masters.size()));
    masters.copyOut(ExecSpace(), 0, masters.size(), values.data() + values.size() - masters.size());
  }
  return values;
}

const Communicator& everyone() {
  static std::unique_ptr<Communicator> world;
  if (world == nullptr) {
    world = std::make_unique<Communicator>(Communicator::world());
    atEnd().emplace_back([] { world.reset(); });
  }
  return *world;
}

Communicator groupOf(int ranks) {
  return everyone().split(everyone().rank() / ranks, everyone().rank());
}

std::string trainedHash(int ranks, const Overrides& overrides) {
  const Communicator group = groupOf(ranks);
  std::string hash;
  std::exception_ptr failure;
  if (everyone().rank() < ranks) {
    try {
      hash = SmallRun(group, smallDeck(overrides)).train().hash();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  everyone().barrier(); // waits asleep, unlike MPI_Bcast
  hash = broadcast(everyone(), hash);
  if (failure != nullptr) std::rethrow_exception(failure);
  if (hash.empty()) throw std::runtime_error("the training failed on another rank");
  return hash;
}

std::vector<MessagePath> usablePaths(MessagePath MessagePaths::*purpose) {
  if (chooseMessagePaths(RunConfig()).*purpose == MessagePath::staged) return {MessagePath::staged};
  return {MessagePath::direct, MessagePath::staged};
}

} // namespace partita::test
