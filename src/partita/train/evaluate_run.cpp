#include "partita/train/evaluate_run.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/chunks.hpp"
#include "partita/comm/wait.hpp"
#include "partita/config/deck.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/core/finite.hpp"
#include "partita/core/log.hpp"
#include "partita/data/dataset.hpp"
#include "partita/data/load_data.hpp"
#include "partita/data/order.hpp"
#include "partita/io/earlier_output.hpp"
#include "partita/io/npz.hpp"
#include "partita/io/output_file.hpp"
#include "partita/io/shared_run_file.hpp"
#include "partita/io/stage_tensors.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/evaluation.hpp"
#include "partita/train/banner.hpp"
#include "partita/train/check_plans.hpp"
#include "partita/train/compare_data.hpp"
#include "partita/train/run_files.hpp"
#include "partita/train/setup.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>

namespace partita {

namespace {

/// The outputs of the joined network for each sample of a set, as NumPy's .npz: `features` [samples, width]
/// as in the data files, `labels` [samples] if they are known, `logits` [samples, classes]; of a network that
/// predicts a sequence, `labels` [samples, positions], `logits` [samples, positions, classes].
class Predictions {
 public:
  /// Keeps nothing if `path` is empty. Collective; throws UserError on every rank if the file cannot be
  /// written. Does the network predict a `sequence`?
  /// `class_labels`: see RunFacts; empty if they are the numbers of the classes.
  Predictions(const Communicator& world, const std::string& path, bool sequence,
              std::vector<std::int64_t> class_labels);

  bool wanted() const { return _wanted; }
  /// Adds the outputs for the next rows of this replica's part, on the ranks of the last stage.
  void add(const ExecSpace& space, const TypedMatrix& predicted);
  /// Collects the outputs on rank 0, which has the features, and writes the file. Collective.
  /// The network ends after `stages` stages.
  void write(const Grid& grid, const DataSets& sets, const Dataset& set, int stages);

 private:
  void writeAll(const Grid& grid, const DataSets& sets, const Dataset& set, int stages);
  void writeFeatures(const Samples& features);
  /// Calls `write`, unless an earlier call has failed: the other ranks go on, and learn of it at the end.
  void attempt(const std::function<void()>& write);

  bool _wanted, _sequence;
  std::vector<std::int64_t> _class_labels;
  std::exception_ptr _failure;
  std::unique_ptr<NpzWriter> _file; ///< on rank 0
  std::vector<float> _logits;       ///< of this rank
};

Predictions::Predictions(const Communicator& world, const std::string& path, bool sequence,
                         std::vector<std::int64_t> class_labels)
    : _wanted(!path.empty()), _sequence(sequence), _class_labels(std::move(class_labels)) {
  collectively(world, [&] {
    if (_wanted && world.rank() == 0) _file = std::make_unique<NpzWriter>(path);
  });
}

void Predictions::add(const ExecSpace& space, const TypedMatrix& predicted) {
  Matrix logits;
  if (predicted.half()) {
    logits = makeMatrix("partita::Predictions::logits", predicted.rows, predicted.columns);
    copyValues(space, predicted, logits);
  } else {
    logits = predicted.real();
  }
  const auto host = Kokkos::create_mirror_view(logits);
  Kokkos::deep_copy(space, host, logits);
  fence(space, "partita::Predictions::add");
  _logits.insert(_logits.end(), host.data(), host.data() + host.size());
}

void Predictions::attempt(const std::function<void()>& write) {
  if (_failure != nullptr) return;
  try {
    write();
  } catch (const UserError&) {
    _failure = std::current_exception();
  }
}

void Predictions::writeFeatures(const Samples& features) {
  const std::size_t width = features.width();
  const std::size_t rows_per_chunk = std::max<std::size_t>(1, chunk_bytes / (width * sizeof(float)));
  std::vector<float> rows;
  for (std::size_t first = 0; first < features.rows(); first += rows_per_chunk) {
    const std::size_t count = std::min(rows_per_chunk, features.rows() - first);
    rows.resize(count * width);
    for (std::size_t i = 0; i < count; ++i)
      features.copyRow(first + i, {0.0F}, {1.0F}, rows.data() + i * width);
    alive();
    _file->write(rows.data(), rows.size() * sizeof(float));
  }
}

void Predictions::write(const Grid& grid, const DataSets& sets, const Dataset& set, int stages) {
  writeAll(grid, sets, set, stages);
  collectively(grid.world(), [&] {
    if (_failure != nullptr) std::rethrow_exception(_failure);
    if (_file != nullptr) _file->commit();
  });
}

void Predictions::writeAll(const Grid& grid, const DataSets& sets, const Dataset& set, int stages) {
  const GridPlan& plan = grid.plan();
  const bool last = grid.owns(stages - 1) && grid.part() == 0;
  if (last && grid.world().rank() != 0)
    sendChunks(grid.world(), Tag::predictions, _logits.data(), _logits.size() * sizeof(float));
  if (_file == nullptr) return;
  const std::int64_t samples = set.size();
  const auto classes = static_cast<std::size_t>(sets.classes), values = classes * set.labels_per_sample;
  attempt([&] {
    _file->begin(first_array_of_predictions, "<f4", {samples, sets.width()},
                 set.size() * set.features.width() * sizeof(float));
    writeFeatures(set.features);
    if (!_class_labels.empty()) _file->add("class_labels", _class_labels);
    std::vector<std::int64_t> extents{samples};
    if (_sequence) extents.push_back(static_cast<std::int64_t>(set.labels_per_sample));
    if (sets.test_labelled) {
      _file->begin("labels", "<i4", extents, set.labels.size() * sizeof(std::int32_t));
      _file->write(set.labels.data(), set.labels.size() * sizeof(std::int32_t));
    }
    extents.push_back(sets.classes);
    _file->begin("logits", "<f4", extents, set.labels.size() * classes * sizeof(float));
  });
  for (int replica = 0; replica < plan.replicas; ++replica) {
    const int rank = plan.rankAt(plan.groupOf(stages - 1), replica);
    const IndexRange part = shareOf(samples, replica, plan.replicas);
    if (rank == 0) {
      attempt([&] { _file->write(_logits.data(), _logits.size() * sizeof(float)); });
    } else {
      const std::size_t bytes = static_cast<std::size_t>(part.size()) * values * sizeof(float);
      receiveChunks(grid.world(), rank, Tag::predictions, bytes, [&](const char* chunk, std::size_t count) {
        alive();
        attempt([&] { _file->write(chunk, count); });
      });
    }
  }
}

/// Number of replicas with which any number of ranks can evaluate. The ranks form as many stage groups as
/// there are stages or fewer, so that the groups divide `ranks`; the rest of the ranks share the samples.
std::int64_t evaluationReplicas(const StrategySection& strategy, int ranks) {
  int groups = std::max(1, planOf(strategy).stages(strategy));
  while (groups > 1 && (groups > ranks || ranks % groups != 0)) --groups;
  return ranks / groups;
}

/// Outputs for each sample are of use without labels.
TrainedInput trainedInput(const RunFacts& facts, bool labels_optional) {
  return {facts.classes, facts.shape, facts.shift, facts.scale, facts.label_values, labels_optional};
}

/// The files that are read, and must not be overwritten.
std::vector<std::string> inputsOf(const std::string& run, const DataSection& data) {
  std::vector<std::string> files = filesOfRun(run);
  for (const std::string& file : dataFiles(data)) files.push_back(file);
  return files;
}

/// Throws UserError if the file of predictions would destroy an input or another file of the user, or has the
/// name of another kind of file.
void checkPredictions(const EvaluationRequest& request, const DataSection& data) {
  const std::string& name = request.predictions;
  if (name.empty()) return;
  refuseOutput(name, inputsOf(request.path, data));
  if (!endsWith(name, ".npz")) throw UserError("'" + name + "' must end in .npz, as it is such an archive");
  refuseToReplace(name, predictionsOutput(), request.overwrite);
}

/// `whole`: is the last row that of the whole network? `adds`: is each row that of the sum up to its stage?
void showEvaluation(const Evaluation& result, std::size_t samples, bool whole, bool adds, double perplexity) {
  Log::info("test accuracy on " + counted(static_cast<std::int64_t>(samples), "sample") + ":");
  for (std::size_t s = 0; s < result.accuracy.size(); ++s) {
    const std::string who = whole && s + 1 == result.accuracy.size()
                                ? "joined network"
                                : "stage " + std::to_string(s + 1) + (adds ? "" : " alone");
    std::string text =
        formatted("  %-16s %6.2f %%   loss %.4f", who.c_str(), 100.0 * result.accuracy[s], result.loss[s]);
    if (!result.alone.empty()) text += formatted("   alone %6.2f %%", 100.0 * result.alone[s]);
    Log::info(text);
  }
  if (perplexity > 0.0) {
    Log::info(formatted("  perplexity %.4f", perplexity));
  }
}

/// What is evaluated: a file of parameters, with the deck changed for the evaluation.
struct Evaluated {
  std::string file;
  RunConfig deck;
  RunFacts facts;
};

bool sameCuts(const StrategySection& one, const StrategySection& other) {
  return one.kind == other.kind && one.stages == other.stages && one.cut_rule == other.cut_rule &&
         one.cuts == other.cuts;
}

/// Rank 0 looks for the file. Collective.
std::string fileOf(const EvaluationRequest& request, const Communicator& world) {
  std::string file;
  collectively(world, [&] {
    if (world.rank() == 0) file = parameterFileOf(request.path);
  });
  return broadcast(world, file);
}

Evaluated evaluatedOf(const EvaluationRequest& request, const Communicator& world,
                      const SharedRunFile& opened) {
  Evaluated source;
  source.file = opened.path();
  Log::info(describeSource(source.file, opened.progress()));
  source.facts = opened.facts();
  const RunFacts& facts = source.facts;
  const RunConfig trained = parseDeck(facts.deck, source.file);
  RunConfig asked = parseDeck(facts.deck, source.file, request.overrides);
  if (!asked.data.isGenerated()) asked.run.seed = trained.run.seed; // which makes no other data
  for (const std::string& change : deckChanges(trained, asked)) Log::info("  changed: " + change);
  // Cuts that balance memory would follow the batch of the evaluation.
  const RunConfig& cut = sameCuts(trained.strategy, asked.strategy) ? trained : asked;
  const StrategySection fixed = withFixedCuts(cut, facts.shape, facts.classes, sizeof(Real)).strategy;
  asked.strategy.cuts = fixed.cuts;
  asked.strategy.cut_rule = fixed.cut_rule;
  source.deck = asked;
  // Another seed makes other data, if they are generated. The labels of stages are those of the training, and
  // so is the test set, if it is a part of the training file.
  source.deck.run.seed = trained.run.seed;
  source.deck.data.seed = asked.run.seed;
  compareHeldOut(trained.data, asked.data, true, false);
  source.deck.strategy.replicas = evaluationReplicas(source.deck.strategy, world.size());
  if (world.rank() == 0) checkPredictions(request, source.deck.data); // which writes them
  return source;
}

/// Replicas read the parameters together. Collective.
void readNetwork(const Communicator& world, SharedRunFile& file, const Setup& setup) {
  collectively(world, [&] {
    checkParameters(file, setup.plans.partition, true);
    file.open(&setup.grid.peers(), setup.grid.ownsStages());
  });
  collectively(world, [&] { readParameters(file, setup.stagePointers<Stage*>()); });
}

} // namespace

void evaluateRun(const Communicator& world, const EvaluationRequest& request,
                 const std::string& command_line) {
  const ExecSpace space;
  showBanner(space, world, command_line);
  Evaluated source;
  SharedRunFile file(world, fileOf(request, world));
  collectively(world, [&] { source = evaluatedOf(request, world, file); });
  const RunFacts& facts = source.facts;
  Setup setup(world, source.deck, trainedInput(facts, !request.predictions.empty()));
  const int all = setup.grid.plan().stages, stages = request.stages > 0 ? request.stages : all;
  collectively(world, [&] { checkStageCount(setup.config, all, stages); });
  showMessagePaths(setup.grid);
  verifyTogether(world, source.file);
  readNetwork(world, file, setup);
  collectively(world, [&] { checkExitWeights(facts, setup.config, all, stages, source.file); });
  for (const auto& local : setup.stages)
    if (joinedForm(setup.config.strategy).fits_exits && !facts.exit_weights.empty())
      local->exit_weight = facts.exit_weights.at(static_cast<std::size_t>(local->index()));
  const DataSets& sets = setup.plans.sets;
  if (world.rank() == 0) compareTestFeatures(facts, sets, source.file);
  Predictions kept(world, request.predictions, setup.plans.partition.stages.back().sequence,
                   facts.label_values);
  const OutputRows keep = [&](const TypedMatrix& logits) { kept.add(space, logits); };
  const Evaluation result = evaluateJoined(space, setup.config, setup.grid, setup.stages, sets, sets.test,
                                           kept.wanted() ? keep : OutputRows(), stages);
  const bool finite = allFinite(result.loss.data(), static_cast<std::int64_t>(result.loss.size()));
  const bool fails = world.rank() == 0 && sets.test.size() > 0 && !finite; // the others may have no labels
  const bool any_fails = world.maximum(std::int64_t{fails}) > 0;
  if (kept.wanted() && !any_fails) // otherwise an earlier file stays
    kept.write(setup.grid, sets, sets.test, stages);
  if (sets.test_labelled)
    showEvaluation(result, sets.test.size(), stages == all, joinedForm(setup.config.strategy).adds_exits,
                   perplexityOf(setup.config, setup.plans.partition, result.loss.back()));
  else
    Log::info("no test accuracy: the " + counted(static_cast<std::int64_t>(sets.test.size()), "sample") +
              " of the test set have no labels");
  const std::string hash = hashParameters(setup.grid, setup.stagePointers<const Stage*>());
  Log::info("parameters_hash " + hash);
  if (fails)
    throw RunError(
        "the loss is not finite: the network computes numbers beyond the range of run/precision, and its "
        "accuracy says nothing");
}

} // namespace partita
