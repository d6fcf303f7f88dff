#include "partita/io/stage_tensors.hpp"

#include "partita/config/user_error.hpp"

#include <optional>

namespace partita {

const std::vector<StageTensor>& tensorsOf(const Stage& stage, const std::string& kind) {
  return kind == statistics_kind ? stage.statisticsTensors() : stage.tensors();
}

void placeValues(RunFileContent& content, const std::string& kind, const Stage& stage, const Real* values) {
  for (const StageTensor& tensor : tensorsOf(stage, kind)) {
    for (std::size_t i = 0; i < content.tensors.size(); ++i) {
      const TensorRecord& record = content.tensors[i];
      if (record.kind == kind && record.layer == tensor.layer && record.name == tensor.name)
        content.values[i] = values + tensor.offset;
    }
  }
}

std::vector<TensorRecord> networkTensors(const Partition& partition, const std::string& kind) {
  std::vector<TensorRecord> tensors;
  for (const StagePlan& stage : partition.stages) {
    for (const LayerPlan* layer : leavesOf(stage.layers)) {
      for (const ParameterShape& shape :
           kind == statistics_kind ? layer->statisticsShapes() : layer->parameterShapes())
        tensors.push_back({kind, layer->name(), shape.name, shape.extents, shape.axes});
    }
  }
  return tensors;
}

namespace {

/// On the host, as one flat buffer of `size` values; none where the file has not all of them.
std::optional<std::vector<Real>> valuesOfStage(const RunFile& file, const std::string& kind,
                                               const Stage& stage, std::int64_t size) {
  const std::vector<StageTensor>& tensors = tensorsOf(stage, kind);
  for (const StageTensor& tensor : tensors) {
    const TensorRecord* found = file.find(kind, tensor.layer, tensor.name);
    if (found == nullptr || found->extents != tensor.extents) return std::nullopt;
  }
  std::vector<Real> values(static_cast<std::size_t>(size));
  for (const StageTensor& tensor : tensors)
    file.read(*file.find(kind, tensor.layer, tensor.name), values.data() + tensor.offset);
  return values;
}

} // namespace

bool readStageTensors(const RunFile& file, const std::string& kind, const Stage& stage,
                      const StoredVector& values) {
  const auto found = valuesOfStage(file, kind, stage, values.size());
  if (!found) return false;
  values.copyIn(ExecSpace(), found->data());
  return true;
}

void readParameters(const RunFile& file, const std::vector<Stage*>& stages) {
  for (Stage* stage : stages) {
    const auto values = valuesOfStage(file, parameters_kind, *stage, stage->masters().size());
    if (!values || !readStageTensors(file, statistics_kind, *stage, StoredVector(stage->statistics())))
      throw UserError(file.path() + ": lacks parameters of this network");
    stage->setParameters(ExecSpace(), values->data());
  }
}

void checkParameters(const RunFile& file, const Partition& partition) {
  for (const char* kind : {parameters_kind, statistics_kind}) {
    for (const TensorRecord& wanted : networkTensors(partition, kind)) {
      const TensorRecord* found = file.find(wanted.kind, wanted.layer, wanted.name);
      if (found == nullptr) throw UserError(file.path() + ": has no '" + wanted.path() + "'");
      if (found->extents != wanted.extents)
        throw UserError(file.path() + ": '" + wanted.path() + "' has another shape than the deck");
    }
  }
}

} // namespace partita
