#include "partita/train/export_run.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/deck.hpp"
#include "partita/config/names.hpp"
#include "partita/core/log.hpp"
#include "partita/core/sha256.hpp"
#include "partita/core/version.hpp"
#include "partita/data/dataset.hpp"
#include "partita/io/npz.hpp"
#include "partita/io/onnx.hpp"
#include "partita/io/parameters_file.hpp"
#include "partita/strategy/local_stage.hpp"
#include "partita/train/run_directory.hpp"

#include <filesystem>

namespace partita {

namespace {

/// What a parameter file says besides the parameters.
struct StoredNetwork {
  RunConfig config;
  std::string deck;
  std::int64_t inputs = 0, classes = 0;
  std::vector<float> shift, scale;
};

/// The file has the deck only: sizes and standardisation follow from the training set.
StoredNetwork readDescription(const std::string& file) {
  StoredNetwork stored;
  stored.deck = inspectParameters(file).deck;
  stored.config = parseDeck(stored.deck, file);
  stored.config.strategy.replicas = 1;
  const auto seed = static_cast<std::uint64_t>(stored.config.run.seed);
  DataSets sets = loadData(stored.config.data, seed, Need::everything);
  stored.inputs = sets.width();
  stored.classes = sets.classes;
  stored.shift = std::move(sets.shift);
  stored.scale = std::move(sets.scale);
  return stored;
}

/// The parameters of one stage as they lie in its flat buffer.
std::vector<Real> readStage(const std::string& file, const Grid& grid, Stage& stage) {
  readParameters(file, grid, {&stage});
  std::vector<Real> values(stage.parameters().extent(0));
  const ExecSpace space;
  Kokkos::deep_copy(space, Kokkos::View<Real*, HostSpace>(values.data(), values.size()), stage.parameters());
  fence(space, "partita::joinedNetwork");
  return values;
}

Operation denseOperation(const LayerPlan& layer, const Stage& stage, const std::vector<Real>& values) {
  Operation dense;
  dense.name = layer.name();
  for (const StageTensor& tensor : stage.tensors()) {
    if (tensor.layer != dense.name) continue;
    const auto begin = values.begin() + tensor.offset;
    dense.tensors.push_back({tensor.layer + "/" + tensor.name, tensor.extents, {begin, begin + tensor.size}});
  }
  return dense;
}

Operation activationOperation(const LayerPlan& layer) {
  Operation operation;
  operation.kind = Operation::Kind::activation;
  operation.name = "layer" + std::to_string(layer.index) + "." + nameOf(layer.activation);
  operation.activation = layer.activation;
  operation.slope = layer.slope;
  return operation;
}

Operation reencodeOperation(const StoredNetwork& stored, const StagePlan& plan) {
  const SilLabels labels = labelsOfCut(stored.config, stored.classes, plan.outputs(), plan.index);
  Operation operation;
  operation.kind = Operation::Kind::reencode;
  operation.name = "cut" + std::to_string(plan.index) + ".reencode";
  std::vector<float> decoder;
  decoder.reserve(labels.values.size());
  for (std::size_t i = 0; i < labels.values.size(); ++i) {
    const double centred = labels.values[i] - labels.mean[i % labels.mean.size()];
    decoder.push_back(static_cast<float>(centred / labels.temperature));
  }
  const std::vector<std::int64_t> extents{labels.classes(), labels.width()};
  operation.tensors.push_back({operation.name + "/decoder", extents, std::move(decoder)});
  operation.tensors.push_back(
      {operation.name + "/labels", extents, {labels.values.begin(), labels.values.end()}});
  return operation;
}

void addStage(const StoredNetwork& stored, const StagePlan& plan, const Stage& stage,
              const std::vector<Real>& values, std::vector<Operation>& operations) {
  for (const LayerPlan& layer : plan.layers) {
    if (layer.type == LayerType::dense) operations.push_back(denseOperation(layer, stage, values));
    if (layer.activation != Activation::identity) operations.push_back(activationOperation(layer));
  }
  if (!plan.last() && reencodes(stored.config.strategy))
    operations.push_back(reencodeOperation(stored, plan));
}

bool endsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void writeNetwork(const std::string& output, const JoinedNetwork& network) {
  endsWith(output, ".onnx") ? writeOnnx(output, network) : writeNpz(output, network);
  std::int64_t parameters = 0;
  for (const Operation& operation : network.operations) {
    if (operation.kind != Operation::Kind::dense) continue;
    for (const NamedTensor& tensor : operation.tensors)
      parameters += static_cast<std::int64_t>(tensor.values.size());
  }
  Log::info(output + ": " + std::to_string(network.inputs) + " features, " + std::to_string(network.classes) +
            " classes, " + std::to_string(parameters) + " parameters, " +
            formatBytes(static_cast<double>(std::filesystem::file_size(output))));
  Log::info("parameters_hash " + network.parameters_hash);
}

} // namespace

JoinedNetwork joinedNetwork(const Communicator& self, const std::string& file) {
  StoredNetwork stored = readDescription(file);
  const Partition partition =
      planPartition(stored.config, planNetwork(stored.config.network, stored.inputs, stored.classes),
                    stored.classes, sizeof(Real));
  checkParameters(file, partition);
  const Grid grid(self, planGrid(stored.config.strategy, partition, 1));
  JoinedNetwork network;
  Sha256 hash;
  for (const StagePlan& plan : partition.stages) {
    Stage stage(plan, std::vector<Real>(static_cast<std::size_t>(plan.parameters())), 1);
    const std::vector<Real> values = readStage(file, grid, stage);
    hash.update(values.data(), values.size() * sizeof(Real));
    addStage(stored, plan, stage, values, network.operations);
  }
  network.inputs = stored.inputs;
  network.classes = stored.classes;
  network.shift = std::move(stored.shift);
  network.scale = std::move(stored.scale);
  network.loss = stored.config.training.loss;
  network.deck = std::move(stored.deck);
  network.parameters_hash = hash.hex();
  return network;
}

void exportRun(const Communicator& world, const std::string& path, const std::string& output,
               const std::string& command_line) {
  const Communicator self = world.split(world.rank(), 0);
  collectively(world, [&] {
    if (!endsWith(output, ".onnx") && !endsWith(output, ".npz"))
      throw UserError("command line: '" + output + "' ends neither in .onnx nor in .npz");
    if (world.rank() != 0) return;
    JoinedNetwork network = joinedNetwork(self, parameterFileOf(path));
    network.origin = "Partita " + versionString() + " (" + gitHash() + "): " + command_line;
    writeNetwork(output, network);
  });
}

} // namespace partita
