#include "partita/io/run_file.hpp"

namespace partita {

std::int64_t TensorRecord::size() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : extents) product *= extent;
  return product;
}

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
    for (const LayerPlan& plan : stage.layers) {
      const auto layer = makeLayer(plan);
      for (const ParameterShape& shape : layer->parameters())
        tensors.push_back({kind, layer->name(), shape.name, shape.extents});
    }
  }
  return tensors;
}

} // namespace partita
