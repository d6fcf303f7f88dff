#include "partita/io/stage_tensors.hpp"

#include "partita/comm/tags.hpp"
#include "partita/comm/wait.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/sha256.hpp"
#include "partita/plan/network_plan.hpp"

#include <algorithm>
#include <optional>

namespace partita {

const std::vector<StageTensor>& tensorsOf(const Stage& stage, const std::string& kind) {
  return kind == statistics_kind ? stage.statisticsTensors() : stage.tensors();
}

void placeValues(RunFileContent& content, const std::string& kind, const Stage& stage, const Real* values) {
  for (const StageTensor& tensor : tensorsOf(stage, kind)) {
    const TensorRecord* const found = findRecord(content.tensors, kind, tensor.layer, tensor.name);
    if (tensor.owned && found != nullptr)
      content.place(found - content.tensors.data(), tensor.slices, values + tensor.offset);
  }
}

std::vector<TensorRecord> networkTensors(const Partition& partition, const std::string& kind) {
  std::vector<TensorRecord> tensors;
  for (const StagePlan& stage : partition.stages) {
    const std::vector<LayerPlan> layers = stage.allLayers();
    for (const LayerPlan* layer : leavesOf(layers)) {
      for (const ParameterShape& shape :
           kind == statistics_kind ? layer->statisticsShapes() : layer->parameterShapes())
        tensors.push_back({kind, layer->name(), shape.name, shape.extents, shape.axes});
    }
  }
  return tensors;
}

namespace {

/// The kind under which a file stores the values of a replica: the replica's own, or the common one.
std::string kindIn(const StoredTensors& file, const std::string& kind, int replica) {
  const std::string own = kindOfReplica(kind, replica);
  const bool has_own = std::any_of(file.tensors().begin(), file.tensors().end(),
                                   [&](const TensorRecord& tensor) { return tensor.kind == own; });
  return has_own ? own : kind;
}

/// The record of a tensor; null if the file lacks it or has it in another shape.
const TensorRecord* recordOf(const StoredTensors& file, const std::string& kind, const StageTensor& tensor) {
  const TensorRecord* found = file.find(kind, tensor.layer, tensor.name);
  return found != nullptr && found->extents == tensor.extents ? found : nullptr;
}

void readSlices(const RunFile& file, const TensorRecord& record, const StageTensor& tensor, Real* values) {
  for (const TensorSlice& slice : tensor.slices) {
    file.read(record, slice, values);
    values += slice.size();
  }
}

/// Values on the host, as one flat buffer like `own`; empty if the file lacks any of them. A head that the
/// file lacks keeps its own values if `heads_may_lack`: the network was trained with other cuts, or without
/// any.
std::optional<std::vector<Real>> valuesOfStage(const StoredTensors& file, const std::string& kind,
                                               const Stage& stage, const StoredVector& own, int replica,
                                               bool heads_may_lack) {
  const std::string stored = kindIn(file, kind, replica);
  const std::vector<StageTensor>& tensors = tensorsOf(stage, kind);
  for (const StageTensor& tensor : tensors) {
    const bool may_lack = heads_may_lack && isOfHead(tensor.layer);
    if (!may_lack && recordOf(file, stored, tensor) == nullptr) return std::nullopt;
  }
  std::vector<Real> values = own.values(ExecSpace());
  file.fill(values, [&](const RunFile& opened) {
    for (const StageTensor& tensor : tensors)
      if (const TensorRecord* record = recordOf(file, stored, tensor); record != nullptr)
        readSlices(opened, *record, tensor, values.data() + tensor.offset);
  });
  return values;
}

/// A network without a trained bias, say, would compute something else.
void refuseOthers(const StoredTensors& file, const std::string& kind,
                  const std::vector<TensorRecord>& wanted) {
  for (const TensorRecord& stored : file.tensors()) {
    const bool known = std::any_of(wanted.begin(), wanted.end(), [&](const TensorRecord& one) {
      return one.layer == stored.layer && one.name == stored.name;
    });
    if (stored.kind == kind && !known && !isOfHead(stored.layer))
      throw UserError(file.path() + ": has '" + stored.path() + "', which the network of the deck lacks");
  }
}

} // namespace

bool readStageTensors(const StoredTensors& file, const std::string& kind, const Stage& stage,
                      const StoredVector& values, int replica) {
  const auto found = valuesOfStage(file, kind, stage, values, replica, false);
  if (!found) return false;
  values.copyIn(ExecSpace(), found->data());
  return true;
}

void readParameters(const StoredTensors& file, const std::vector<Stage*>& stages, int replica) {
  for (Stage* stage : stages) {
    const StoredVector statistics(stage->statistics());
    const auto values = valuesOfStage(file, parameters_kind, *stage, stage->masters(), replica, true),
               kept = valuesOfStage(file, statistics_kind, *stage, statistics, replica, true);
    if (!values || !kept) throw UserError(file.path() + ": does not contain all parameters of this network");
    statistics.copyIn(ExecSpace(), kept->data());
    stage->setParameters(ExecSpace(), values->data());
  }
}

void checkParameters(const StoredTensors& file, const Partition& partition, bool with_heads) {
  for (const char* kind : {parameters_kind, statistics_kind}) {
    for (const TensorRecord& wanted : networkTensors(partition, kind)) {
      if (!with_heads && isOfHead(wanted.layer)) continue;
      const TensorRecord* found = file.find(wanted.kind, wanted.layer, wanted.name);
      if (found == nullptr)
        throw UserError(file.path() + ": has no '" + wanted.path() + "', which the network of the deck has");
      if (found->extents != wanted.extents)
        throw UserError(file.path() + ": '" + wanted.path() + "' has a different shape in the deck: " +
                        joined(wanted.extents, "x") + " instead of " + joined(found->extents, "x"));
    }
    refuseOthers(file, kind, networkTensors(partition, kind));
  }
}

namespace {

/// Copies one chunk at a time: a full copy of the parameters could set the peak memory of the run.
void add(const StoredVector& values, const StageTensor& tensor, Sha256& hash) {
  constexpr std::int64_t most = 1 << 16;
  std::vector<Real> chunk(std::min(most, tensor.size));
  for (std::int64_t done = 0; done < tensor.size; done += most) {
    const std::int64_t count = std::min(most, tensor.size - done);
    values.copyOut(ExecSpace(), tensor.offset + done, count, chunk.data());
    hash.update(chunk.data(), count * sizeof(Real));
  }
}

/// A tensor that the parts of a stage have in slices, in the order of the whole; `own` is null if this part
/// has none of it. Collective over the parts; only the first one adds to its hash.
void addShared(const Communicator& parts, const StoredVector& values,
               const std::vector<std::int64_t>& extents, const StageTensor* own, Sha256& hash) {
  if (parts.size() == 1) return add(values, *own, hash);
  std::vector<Real> held;
  std::vector<TensorPart> slices;
  if (own != nullptr && own->owned) {
    held.resize(static_cast<std::size_t>(own->size));
    values.copyOut(ExecSpace(), own->offset, own->size, held.data());
    const Real* next = held.data();
    for (const TensorSlice& slice : own->slices) {
      slices.push_back({slice, next});
      next += slice.size();
    }
  }
  constexpr std::int64_t most = 1 << 16;
  const std::int64_t row = valuesOf(extents) / extents[0];
  gatherTensor(parts, extents, slices, std::max<std::int64_t>(1, most / row),
               [&](std::int64_t, std::int64_t rows, const Real* block) {
                 hash.update(block, static_cast<std::size_t>(rows * row) * sizeof(Real));
               });
}

/// Adds parameters, then statistics, layer by layer, so that the order does not depend on the cuts.
void addStage(const Communicator& parts, const Stage& stage, Sha256& hash) {
  const StoredVector statistics(stage.statistics());
  const std::vector<LayerPlan> layers = stage.plan().allLayers();
  for (const LayerPlan* leaf : leavesOf(layers)) {
    const std::string layer = leaf->name();
    for (const ParameterShape& shape : leaf->whole().parameterShapes())
      addShared(parts, stage.masters(), shape.extents, findTensor(stage.tensors(), layer, shape.name), hash);
    for (const ParameterShape& shape : leaf->whole().statisticsShapes())
      addShared(parts, statistics, shape.extents, findTensor(stage.statisticsTensors(), layer, shape.name),
                hash);
  }
}

void sendHash(const Communicator& chain, int to, const Sha256& hash) {
  Request().send(&hash, sizeof hash, MPI_BYTE, to, Tag::hash, chain, "hash").wait();
}

void receiveHash(const Communicator& chain, int from, Sha256& hash) {
  Request().receive(&hash, sizeof hash, MPI_BYTE, from, Tag::hash, chain, "hash").wait();
}

} // namespace

std::string hashParameters(const Grid& grid, const std::vector<const Stage*>& stages) {
  if (!grid.ownsStages() || grid.replica() > 0) return "";
  const Communicator& chain = grid.chain();
  Sha256 hash; // plain data: each group continues the hash of the one before; the last sends it to rank 0
  const bool speaks = grid.speaks();
  if (speaks && chain.rank() > 0) receiveHash(chain, chain.rank() - 1, hash);
  for (const Stage* stage : stages) addStage(grid.along(Axis::part), *stage, hash);
  if (!speaks) return "";
  const int last = chain.size() - 1;
  if (last > 0) sendHash(chain, chain.rank() < last ? chain.rank() + 1 : 0, hash);
  if (chain.rank() == 0 && last > 0) receiveHash(chain, last, hash);
  return chain.rank() == 0 ? hash.hex() : "";
}

} // namespace partita
