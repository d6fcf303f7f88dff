#include "partita/strategy/divergence.hpp"

#include "partita/core/error.hpp"
#include "partita/io/stage_tensors.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace partita {

namespace {

bool allFinite(const Real* values, std::size_t count) {
  return std::all_of(values, values + count, [](Real value) { return std::isfinite(value); });
}

bool allFinite(const TypedMatrix& stored) {
  const Matrix values = makeMatrix("partita::allFinite", stored.rows, stored.columns);
  copyValues(ExecSpace(), stored, values);
  const auto host = Kokkos::create_mirror_view_and_copy(HostSpace(), values);
  return allFinite(host.data(), host.size());
}

/// Are the parameters of a layer, and of the layers inside it, finite?
bool parametersFinite(const Stage& stage, const LayerPlan& layer) {
  for (const StageTensor& tensor : stage.tensors()) {
    const bool inside = tensor.layer.compare(0, layer.place.size() + 1, layer.place + ".") == 0;
    if (!inside) continue;
    std::vector<Real> values(static_cast<std::size_t>(tensor.size));
    stage.masters().copyOut(ExecSpace(), tensor.offset, tensor.size, values.data());
    if (!allFinite(values.data(), values.size())) return false;
  }
  return true;
}

/// Searches in the order in which a batch passes through the stage.
std::string firstBadPlace(const LocalStage& local, const Tape& tape, const TypedMatrix& in) {
  if (!allFinite(in)) return "the input of the stage";
  const std::vector<LayerPlan>& layers = local.stage.plan().layers;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string name = layers[i].name();
    if (!parametersFinite(local.stage, layers[i])) return "the parameters of " + name;
    if (!allFinite(tape.outputs[i].rowsFrom(0, tape.rows))) return "the output of " + name;
  }
  for (const auto* more : {&local.stage.plan().decoder, &local.stage.plan().head})
    for (const LayerPlan& layer : *more)
      if (!parametersFinite(local.stage, layer)) return "the parameters of " + layer.name();
  return "the loss";
}

} // namespace

namespace {

std::function<void()> before_divergence;

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
                 "; the first values that are not finite: " + firstBadPlace(local, tape, in) +
                 " (try a smaller optimiser/learning_rate, optimiser/clip_norm or a warm-up; checkpoints of "
                 "earlier steps, if there are any, are kept)");
}

namespace {

struct CountBad {
  const Real* values;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t& bad) const {
    bad += values[i] - values[i] == 0 ? 0 : 1;
  }
};

bool allFinite(const ExecSpace& space, const StoredVector& stored, const StageTensor& tensor) {
  using HostRange = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<std::int64_t>>;
  std::int64_t bad = 0;
  if (stored.offloaded()) {
    Kokkos::parallel_reduce("partita::failIfNotFinite", HostRange(0, tensor.size),
                            CountBad{stored.onHost() + tensor.offset}, bad);
  } else {
    Kokkos::parallel_reduce("partita::failIfNotFinite", Range(space, 0, tensor.size),
                            CountBad{stored.device().data() + tensor.offset}, bad);
  }
  return bad == 0;
}

} // namespace

void failIfNotFinite(const ExecSpace& space, const LocalStage& local, std::int64_t step) {
  const auto check = [&](const std::string& kind, const StoredVector& values) {
    for (const StageTensor& tensor : tensorsOf(local.stage, kind)) {
      if (allFinite(space, values, tensor)) continue;
      BeforeDivergence::happen();
      throw RunError("stage " + std::to_string(local.index() + 1) + ": '/" + kind + "/" + tensor.layer + "/" +
                     tensor.name + "' is not finite after " + std::to_string(step) +
                     " steps (try a smaller optimiser/learning_rate, optimiser/clip_norm or a warm-up; "
                     "checkpoints of earlier steps, if there are any, are kept)");
    }
  };
  fence(space, "partita::failIfNotFinite"); // the host reads what is offloaded
  check(parameters_kind, local.stage.masters());
  check(statistics_kind, StoredVector(local.stage.statistics()));
}

} // namespace partita
