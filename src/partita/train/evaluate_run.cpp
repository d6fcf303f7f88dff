#include "partita/comm/agree.hpp"
#include "partita/config/deck.hpp"
#include "partita/core/log.hpp"
#include "partita/data/loaded_sets.hpp"
#include "partita/io/output_file.hpp"
#include "partita/io/parameters_hash.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/io/stage_tensors.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/evaluation.hpp"
#include "partita/train/banner.hpp"
#include "partita/train/predictions.hpp"
#include "partita/train/run_files.hpp"
#include "partita/train/setup.hpp"
#include "partita/train/training_run.hpp"

#include <algorithm>
#include <array>

namespace partita {

namespace {

/// Replicas that let any number of ranks evaluate: as many stage groups as divide it, the samples shared by
/// the rest.
std::int64_t evaluationReplicas(const StrategySection& strategy, int ranks) {
  int groups = std::max(1, planOf(strategy).stages(strategy));
  while (groups > 1 && (groups > ranks || ranks % groups != 0)) --groups;
  return ranks / groups;
}

TrainedInput trainedInput(const RunFacts& facts) {
  TrainedInput input{facts.classes, 1, facts.shift, facts.scale, facts.label_values};
  for (const std::int64_t extent : facts.shape) input.width *= extent;
  return input;
}

/// What is read, and must not be written to.
std::vector<std::string> inputsOf(const std::string& run, const DataSection& data) {
  std::vector<std::string> files = filesOfRun(run);
  for (const std::string* name : {&data.train_images, &data.train_labels, &data.test_images,
                                  &data.test_labels, &data.train_file, &data.test_file, &data.vocabulary})
    if (!name->empty())
      for (const char* end : {"", ".gz"}) files.push_back(dataPath(data, *name) + end);
  return files;
}

void showEvaluation(const Evaluation& result, std::size_t samples) {
  Log::info("test accuracy on " + std::to_string(samples) + " samples:");
  for (std::size_t s = 0; s < result.accuracy.size(); ++s) {
    std::array<char, 96> line{};
    const std::string who =
        s + 1 == result.accuracy.size() ? "joined network" : "stage " + std::to_string(s + 1) + " alone";
    std::snprintf(line.data(), line.size(), "  %-16s %6.2f %%   loss %.4f", who.c_str(),
                  100.0 * result.accuracy[s], result.loss[s]);
    Log::info(line.data());
  }
}

} // namespace

void evaluateRun(const Communicator& world, const std::string& path,
                 const std::vector<std::string>& overrides, const std::string& predictions,
                 const std::string& command_line) {
  const ExecSpace space;
  showBanner(space, world, command_line);
  std::string file;
  RunConfig deck;
  RunFacts facts;
  collectively(world, [&] {
    file = parameterFileOf(path);
    facts = RunFile(file).facts();
    deck = withFixedCuts(parseDeck(facts.deck, file, overrides), facts.shape, facts.classes, sizeof(Real));
    deck.strategy.replicas = evaluationReplicas(deck.strategy, world.size());
    if (!predictions.empty()) refuseInput(predictions, inputsOf(path, deck.data));
  });
  Setup setup(world, deck, trainedInput(facts));
  showMessagePaths(setup.grid);
  collectively(world, [&] {
    const RunFile opened(file);
    opened.verify(static_cast<std::size_t>(world.rank()), static_cast<std::size_t>(world.size()));
    checkParameters(opened, setup.plans.partition);
    readParameters(opened, setup.stagePointers<Stage*>());
  });
  const DataSets& sets = setup.plans.sets;
  Predictions kept(world, predictions);
  const OutputRows keep = [&](const Matrix& logits) { kept.add(space, logits); };
  const Evaluation result = evaluateJoined(space, setup.config, setup.grid, setup.stages, sets, sets.test,
                                           kept.wanted() ? keep : OutputRows());
  if (kept.wanted()) kept.write(setup.grid, sets, sets.test);
  showEvaluation(result, sets.test.size());
  const std::string hash = hashParameters(setup.grid, setup.stagePointers<const Stage*>());
  Log::info("parameters_hash " + hash);
}

} // namespace partita
