#include "partita/train/export_run.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/deck.hpp"
#include "partita/config/text.hpp"
#include "partita/core/log.hpp"
#include "partita/core/provenance.hpp"
#include "partita/io/earlier_output.hpp"
#include "partita/io/layer_operations.hpp"
#include "partita/io/npz.hpp"
#include "partita/io/onnx.hpp"
#include "partita/io/output_file.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/io/stage_tensors.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/local_stage.hpp"
#include "partita/train/check_plans.hpp"
#include "partita/train/run_files.hpp"

#include <filesystem>

namespace partita {

namespace {

/// What a file contains besides the parameters, and its parsed deck.
struct StoredNetwork {
  explicit StoredNetwork(const RunFile& file)
      : facts(file.facts()), config(parseDeck(facts.deck, file.path())) {
    config = effective(withFixedCuts(config, facts.shape, facts.classes, sizeof(Real)));
    config.strategy.replicas = 1;
    for (const std::int64_t extent : facts.shape) inputs *= extent;
  }
  RunFacts facts;
  RunConfig config;
  std::int64_t inputs = 1;
};

Operation reencodeOperation(const StoredNetwork& stored, const StagePlan& plan) {
  const SilLabels labels = labelsOfCut(stored.config, stored.facts.classes, plan.labelWidth(), plan.index);
  Operation operation;
  operation.kind = Operation::Kind::reencode;
  operation.name = "cut" + std::to_string(plan.index) + ".reencode";
  const std::vector<std::int64_t> extents{labels.classes(), labels.width()};
  const std::vector<Real> decoder = labels.decoder();
  operation.tensors.push_back({operation.name + "/decoder", extents, {decoder.begin(), decoder.end()}});
  operation.tensors.push_back(
      {operation.name + "/labels", extents, {labels.values.begin(), labels.values.end()}});
  return operation;
}

/// The decoder of fixed labels as a dense layer: classes from the rows of the stage's output.
Operation decoderOperation(const StoredNetwork& stored, const StagePlan& plan) {
  const SilLabels labels = labelsOfCut(stored.config, stored.facts.classes, plan.labelWidth(), plan.index);
  const LayerPlan layer = planHead({}, 0, plan.layers.back()).front();
  Operation operation;
  operation.kind = Operation::Kind::layer;
  operation.name = layer.name();
  operation.type = layer.spec.type;
  operation.word = layer.rules().step(layer).operation;
  operation.shape = {plan.labelWidth()};
  const std::vector<Real> decoder = labels.decoder();
  operation.tensors.push_back(
      {layer.name() + "/weight", {labels.classes(), labels.width()}, {decoder.begin(), decoder.end()}});
  return operation;
}

/// Adds the stages of the joined network, which ends after the first `count` of `stages`.
class StageOperations {
 public:
  StageOperations(const StoredNetwork& stored, LayerOperations& operations, int count, int stages)
      : _stored(stored), _operations(operations), _count(count), _whole(count == stages),
        _adds(joinedForm(stored.config.strategy).adds_exits) {}

  void add(const StagePlan& plan) {
    const bool used = plan.index < _count, end = plan.index + 1 == _count;
    for (const LayerPlan& layer : plan.layers) used ? _operations.add(layer) : _operations.skip(layer);
    for (const LayerPlan& layer : plan.decoder) _operations.skip(layer);
    if (used && _adds) {
      addExit(plan);
    } else if (end && !plan.last()) {
      predict(plan);
    } else {
      for (const LayerPlan& layer : plan.head) _operations.skip(layer);
    }
    if (end && _adds) _operations.addSum(_stored.facts.classes);
    if (!end && used && joinedForm(_stored.config.strategy).reencodes)
      _operations.addRows(reencodeOperation(_stored, plan), plan.labelWidth());
  }

 private:
  /// Makes the prediction of a stage the current value.
  void predict(const StagePlan& plan) {
    for (const LayerPlan& layer : plan.head) _operations.add(layer);
    if (plan.head.empty() && !plan.last())
      _operations.addRows(decoderOperation(_stored, plan), plan.labelWidth(), _stored.facts.classes);
  }

  void addExit(const StagePlan& plan) {
    const std::vector<double>& weights = _stored.facts.exit_weights;
    const bool equal = weights.empty() || !_whole;
    const double weight = equal ? 1.0 / _count : weights.at(static_cast<std::size_t>(plan.index));
    _operations.addExit(plan.index + 1, weight, _stored.facts.classes, [&] { predict(plan); });
  }

  const StoredNetwork& _stored;
  LayerOperations& _operations;
  int _count;
  bool _whole, _adds;
};

/// ", 12.3 MB" for a regular file; empty for a pipe or a device.
std::string sizeOf(const std::string& path) {
  std::error_code none;
  const std::uintmax_t bytes = std::filesystem::file_size(path, none);
  return none ? "" : ", " + formatBytes(static_cast<double>(bytes));
}

void writeNetwork(const std::string& output, const JoinedNetwork& network) {
  endsWith(output, ".onnx") ? writeOnnx(output, network) : writeNpz(output, network);
  Log::info(output + ": " + counted(network.inputs, "feature") + ", " + counted(network.classes, "class") +
            ", " + counted(network.parameters, "parameter") + sizeOf(output));
  Log::info("parameters_hash " + network.parameters_hash);
}

} // namespace

JoinedNetwork joinedNetwork(const std::string& path, int stages) {
  const RunFile file(path);
  file.verify();
  StoredNetwork stored(file);
  const Partition partition = planPartition(
      stored.config, planNetwork(stored.config.network, stored.facts.shape, stored.facts.classes),
      stored.facts.classes, sizeof(Real));
  checkParameters(file, partition, true);
  JoinedNetwork network;
  LayerOperations operations(file, {stored.inputs});
  const int all = static_cast<int>(partition.stages.size()), used = stages > 0 ? stages : all;
  checkStageCount(stored.config, all, used);
  checkExitWeights(stored.facts, stored.config, all, used, path);
  StageOperations steps(stored, operations, used, all);
  for (const StagePlan& plan : partition.stages) steps.add(plan);
  network.parameters = operations.parameters();
  network.outputs = {stored.facts.classes};
  if (partition.stages.back().sequence)
    network.outputs.insert(network.outputs.begin(), partition.stages.back().positions);
  operations.finish(network.outputs);
  network.operations = operations.take();
  const LayerPlan& first = *leavesOf(partition.stages.front().layers).front();
  network.tokens = !first.rules().table(first).empty();
  network.inputs = stored.inputs;
  network.classes = stored.facts.classes;
  network.shift = std::move(stored.facts.shift);
  network.scale = std::move(stored.facts.scale);
  network.class_labels = std::move(stored.facts.label_values);
  // Earlier stages of a network that may end early have learned from a cross-entropy.
  network.loss = used < all ? LossKind::cross_entropy : stored.config.training.loss;
  network.deck = std::move(stored.facts.deck);
  network.parameters_hash = operations.hash();
  return network;
}

void exportRun(const Communicator& world, const std::string& path, const std::string& output, int stages,
               bool overwrite, const std::string& command_line) {
  collectively(world, [&] {
    if (world.rank() != 0) return;
    refuseOutput(output, filesOfRun(path));
    refuseToReplace(output, endsWith(output, ".onnx") ? onnxOutput() : npzOutput(), overwrite);
    const std::string file = parameterFileOf(path);
    const RunFile opened(file);
    Log::info(describeSource(file, opened.isCheckpoint() ? std::optional(opened.progress()) : std::nullopt));
    JoinedNetwork network = joinedNetwork(file, stages);
    network.origin = "Partita " + versionString() + " (" + gitHash() + "): " + command_line;
    writeNetwork(output, network);
  });
}

} // namespace partita
