#include "partita/io/stage_tensors.hpp"

#include "partita/config/user_error.hpp"

namespace partita {

void placeValues(RunFileContent& content, const Stage& stage, const Real* values) {
  for (const StageTensor& tensor : stage.tensors()) {
    for (std::size_t i = 0; i < content.tensors.size(); ++i) {
      const TensorRecord& record = content.tensors[i];
      if (record.kind == parameters_kind && record.layer == tensor.layer && record.name == tensor.name)
        content.values[i] = values + tensor.offset;
    }
  }
}

std::vector<TensorRecord> networkTensors(const Partition& partition, const std::string& kind) {
  std::vector<TensorRecord> tensors;
  for (const StagePlan& stage : partition.stages) {
    for (const LayerPlan* layer : leavesOf(stage.layers)) {
      for (const ParameterShape& shape : layer->parameterShapes())
        tensors.push_back({kind, layer->name(), shape.name, shape.extents});
    }
  }
  return tensors;
}

namespace {

/// On the host, as one flat buffer; empty where the file has not all of them.
std::vector<Real> valuesOfStage(const RunFile& file, const std::string& kind, const Stage& stage) {
  std::vector<Real> values;
  for (const StageTensor& tensor : stage.tensors()) {
    const TensorRecord* found = file.find(kind, tensor.layer, tensor.name);
    if (found == nullptr || found->extents != tensor.extents) return {};
  }
  values.resize(static_cast<std::size_t>(stage.masters().size()));
  for (const StageTensor& tensor : stage.tensors())
    file.read(*file.find(kind, tensor.layer, tensor.name), values.data() + tensor.offset);
  return values;
}

} // namespace

bool readStageTensors(const RunFile& file, const std::string& kind, const Stage& stage,
                      const StoredVector& values) {
  const std::vector<Real> found = valuesOfStage(file, kind, stage);
  if (found.empty() && values.size() > 0) return false;
  values.copyIn(ExecSpace(), found.data());
  return true;
}

void readParameters(const RunFile& file, const std::vector<Stage*>& stages) {
  for (Stage* stage : stages) {
    const std::vector<Real> values = valuesOfStage(file, parameters_kind, *stage);
    if (values.empty() && stage->masters().size() > 0)
      throw UserError(file.path() + ": lacks parameters of this network");
    stage->setParameters(ExecSpace(), values.data());
  }
}

void checkParameters(const RunFile& file, const Partition& partition) {
  for (const TensorRecord& wanted : networkTensors(partition, parameters_kind)) {
    const TensorRecord* found = file.find(wanted.kind, wanted.layer, wanted.name);
    if (found == nullptr) throw UserError(file.path() + ": has no '" + wanted.path() + "'");
    if (found->extents != wanted.extents)
      throw UserError(file.path() + ": '" + wanted.path() + "' has another shape than the deck");
  }
}

} // namespace partita
