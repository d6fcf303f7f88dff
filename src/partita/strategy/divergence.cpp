#include "partita/strategy/divergence.hpp"

#include "partita/core/error.hpp"
#include "partita/io/stage_tensors.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace partita {

namespace {

std::function<void()> before_divergence;

template <class Stored>
struct CountBad {
  const Stored* values;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t& bad) const {
    const Real value = toReal(values[i]);
    bad += value - value == 0 ? 0 : 1;
  }
};

template <class Space, class Stored>
bool finiteIn(const Space& space, const Stored* values, std::int64_t count) {
  std::int64_t bad = 0;
  Kokkos::parallel_reduce("partita::finiteIn",
                          Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(space, 0, count),
                          CountBad<Stored>{values}, bad);
  return bad == 0;
}

/// The host reads what is offloaded: no work on `space` may still change it.
bool tensorFinite(const ExecSpace& space, const StoredVector& stored, const StageTensor& tensor) {
  if (stored.offloaded())
    return finiteIn(Kokkos::DefaultHostExecutionSpace(), stored.onHost() + tensor.offset, tensor.size);
  return finiteIn(space, stored.device().data() + tensor.offset, tensor.size);
}

/// Are the rounded copies finite with which layers compute in 16 bits?
bool copiesFinite(const ExecSpace& space, const TypedSpan& copies) {
  bool finite = true;
  withStored(copies.precision, [&](auto stored) {
    using Stored = decltype(stored);
    finite = finiteIn(space, static_cast<const Stored*>(copies.data), copies.size);
  });
  return finite;
}

bool matrixFinite(const ExecSpace& space, const TypedMatrix& stored) {
  const Matrix values = makeMatrix("partita::matrixFinite", stored.rows, stored.columns);
  copyValues(space, stored, values);
  return finiteIn(space, values.data(), stored.size());
}

/// Are the parameters of a layer, and of the layers inside it, finite?
bool parametersFinite(const ExecSpace& space, const Stage& stage, const LayerPlan& layer) {
  const std::vector<StageTensor>& tensors = stage.tensors();
  return std::all_of(tensors.begin(), tensors.end(), [&](const StageTensor& tensor) {
    const bool inside = tensor.layer.compare(0, layer.place.size() + 1, layer.place + ".") == 0;
    return !inside || tensorFinite(space, stage.masters(), tensor);
  });
}

/// Searches in the order in which a batch passes through the stage.
std::string firstBadPlace(const ExecSpace& space, const LocalStage& local, const Tape& tape,
                          const TypedMatrix& in) {
  if (!matrixFinite(space, in)) return "the input of the stage";
  const std::vector<LayerPlan>& layers = local.stage.plan().layers;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string name = layers[i].name();
    if (!parametersFinite(space, local.stage, layers[i])) return "the parameters of " + name;
    if (!matrixFinite(space, tape.outputs[i].rowsFrom(0, tape.rows))) return "the output of " + name;
  }
  for (const auto* more : {&local.stage.plan().decoder, &local.stage.plan().head})
    for (const LayerPlan& layer : *more)
      if (!parametersFinite(space, local.stage, layer)) return "the parameters of " + layer.name();
  return "the loss";
}

} // namespace

BeforeDivergence::BeforeDivergence(std::function<void()> call) {
  before_divergence = std::move(call);
}

BeforeDivergence::~BeforeDivergence() {
  before_divergence = nullptr;
}

void BeforeDivergence::happen() {
  if (before_divergence) before_divergence();
}

void failDiverged(const ExecSpace& space, const LocalStage& local, const Tape& tape, const TypedMatrix& in,
                  std::int64_t counted_from, std::int64_t batches) {
  fence(space, "partita::failDiverged");
  const auto bad_batch = static_cast<std::int64_t>(local.score.peek(space).bad_batch);
  const std::int64_t step = counted_from + (bad_batch + batches - 1) / batches;
  BeforeDivergence::happen();
  throw RunError("stage " + std::to_string(local.index() + 1) + ": the loss is not finite at step " +
                 std::to_string(step) +
                 "; the first values that are not finite: " + firstBadPlace(space, local, tape, in) +
                 " (try a smaller optimiser/learning_rate, optimiser/clip_norm or a warm-up; checkpoints of "
                 "earlier steps, if there are any, are kept)");
}

namespace {

const char* const divergence_advice =
    " (try a smaller optimiser/learning_rate, optimiser/clip_norm or a warm-up; "
    "checkpoints of earlier steps, if there are any, are kept)";

std::string pathOf(const std::string& kind, const StageTensor& tensor) {
  return kind + "/" + tensor.layer + "/" + tensor.name;
}

/// A loss need not show that a weight is infinite in fp16: an activation may have a limit there.
void failIfOutOfRange(const ExecSpace& space, const LocalStage& local, std::int64_t step) {
  const TypedSpan copies = local.stage.trained().parameters;
  if (copies.precision == Precision::single) return; // the masters themselves
  for (const StageTensor& tensor : local.stage.tensors()) {
    if (copiesFinite(space, copies.part(tensor.offset, tensor.offset + tensor.size))) continue;
    BeforeDivergence::happen();
    throw RunError("stage " + std::to_string(local.index() + 1) + ": '/" + pathOf(parameters_kind, tensor) +
                   "' is beyond the range of run/precision after " + std::to_string(step) + " steps" +
                   divergence_advice);
  }
}

} // namespace

void failIfNotFinite(const ExecSpace& space, const LocalStage& local, const std::string& kind,
                     const StoredVector& values, std::int64_t step) {
  fence(space, "partita::failIfNotFinite");
  for (const StageTensor& tensor : tensorsOf(local.stage, kind)) {
    if (tensorFinite(space, values, tensor)) continue;
    BeforeDivergence::happen();
    throw RunError("stage " + std::to_string(local.index() + 1) + ": '/" + pathOf(kind, tensor) +
                   "' is not finite after " + std::to_string(step) + " steps" + divergence_advice);
  }
}

void failIfNotFinite(const ExecSpace& space, const LocalStage& local, std::int64_t step) {
  failIfNotFinite(space, local, parameters_kind, local.stage.masters(), step);
  failIfOutOfRange(space, local, step);
  failIfNotFinite(space, local, statistics_kind, StoredVector(local.stage.statistics()), step);
}

} // namespace partita
