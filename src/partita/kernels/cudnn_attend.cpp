#include "partita/kernels/cudnn_attend.hpp"

#include "partita/core/error.hpp"

#if defined(PARTITA_HAVE_CUDNN)

#include "partita/kernels/bounded_cache.hpp"
#include "partita/kernels/cudnn.hpp"
#include "partita/kernels/cudnn_convolve.hpp"
#include "partita/kernels/cudnn_frontend.hpp"
#include "partita/plan/layer_plan.hpp"

#include <array>
#include <utility>

namespace partita::cudnn {

namespace {

/// How one pass of a call is computed: block by block. `graph` is null if the library cannot.
struct PassPlan {
  std::unique_ptr<AttentionGraph> graph;
  std::int64_t samples = 0, heads = 0; ///< of a block
};

/// Largest divisor of n that is below `bound`.
std::int64_t divisorBelow(std::int64_t n, std::int64_t bound) {
  for (std::int64_t divisor = bound - 1; divisor > 1; --divisor)
    if (n % divisor == 0) return divisor;
  return 1;
}

std::int64_t scratchBytes(const AttentionShape& shape, Precision stored, bool back) {
  const std::int64_t values = back ? attentionBackScratch(shape, stored) - packed_alignment -
                                         roomOf(4 * shape.places() * shape.width, stored)
                                   : attentionScratch(shape, stored);
  return (values - packed_alignment) * static_cast<std::int64_t>(sizeof(Real)); // see `alignedIn`
}

/// The whole call if its scratch is small enough, otherwise fewer samples, and at last fewer heads.
PassPlan planOf(cudnnHandle_t handle, const AttentionShape& shape, Precision stored, bool back) {
  const std::int64_t most = scratchBytes(shape, stored, back);
  AttentionBlock block{
      shape.samples, shape.heads, shape.positions, shape.headWidth(), shape.heads, stored == Precision::bf16,
      back};
  auto graph = compileAttention(handle, block);
  while (graph != nullptr && graph->scratchBytes() > most) {
    if (block.samples > 1)
      block.samples = divisorBelow(shape.samples, block.samples);
    else if (block.heads > 1)
      block.heads = divisorBelow(shape.heads, block.heads);
    else
      return {};
    graph = compileAttention(handle, block);
  }
  const bool whole = block.samples == shape.samples && block.heads == shape.heads;
  const std::int64_t sum_bytes =
      block.samples * block.heads * block.positions * static_cast<std::int64_t>(sizeof(Real));
  if (!whole && sum_bytes % value_alignment != 0)
    return {}; // the sums of the next block would begin anywhere
  return {std::move(graph), block.samples, block.heads};
}

using PlanKey = std::array<std::int64_t, 6>;
using KnownPlans = BoundedCache<PlanKey, PassPlan>;
KnownPlans& knownPlans() {
  static KnownPlans plans(1024);
  return plans;
}

/// The plan may be gone after the next call. The mutex is held.
const PassPlan& planned(cudnnHandle_t handle, const AttentionValues& values, bool back) {
  const AttentionShape& shape = values.shape;
  const Precision stored = values.qkv.precision;
  const PlanKey key{shape.samples, shape.positions, shape.heads,
                    shape.width,   back ? 1 : 0,    static_cast<std::int64_t>(stored)};
  return knownPlans().get(key, [&] { return planOf(handle, shape, stored, back); });
}

/// The first value of a head of a sample, in the given third of a row: queries, keys or values.
void* valueAt(const TypedMatrix& tensor, const AttentionShape& shape, std::int64_t sample, std::int64_t head,
              std::int64_t third = 0) {
  return tensor.rowsFrom(sample * shape.positions, shape.positions)
      .columnsFrom(third * shape.width + head * shape.headWidth(), shape.headWidth())
      .data;
}

/// Runs a pass block by block.
void run(const ExecSpace& space, const AttentionValues& values, const AttentionGradients* gradients,
         Real* scratch) {
  const AttentionShape& shape = values.shape;
  const std::lock_guard<std::mutex> lock(mutex());
  const cudnnHandle_t handle = handleOn(space);
  const PassPlan& plan = planned(handle, values, gradients != nullptr);
  PARTITA_REQUIRE(plan.graph != nullptr, "attention that cuDNN does not compute");
  for (std::int64_t sample = 0; sample < shape.samples; sample += plan.samples)
    for (std::int64_t head = 0; head < shape.heads; head += plan.heads) {
      const auto at = [&](const TypedMatrix& tensor, std::int64_t third = 0) {
        return valueAt(tensor, shape, sample, head, third);
      };
      AttentionAddresses addresses{at(values.qkv), at(values.qkv, 1), at(values.qkv, 2), at(values.out),
                                   values.log_sums + (sample * shape.heads + head) * shape.positions};
      if (gradients != nullptr) {
        addresses.grad_out = at(gradients->out);
        addresses.grad_query = at(gradients->qkv);
        addresses.grad_key = at(gradients->qkv, 1);
        addresses.grad_value = at(gradients->qkv, 2);
      }
      const std::string error = plan.graph->start(handle, addresses, alignedIn(scratch));
      if (!error.empty()) PARTITA_FAIL("attention by cuDNN: " + error);
    }
}

} // namespace

std::string attentionVersion() {
  return hasFrontend() ? version() : "";
}

bool attends(const AttentionValues& values, bool back) {
  constexpr std::int64_t in_vector = 8; // values of 16 bits, whose 16 bytes are the alignment
  if (!hasFrontend() || !values.qkv.half() || sizeof(Real) != sizeof(float) || values.shape.samples == 0 ||
      values.shape.headWidth() % in_vector != 0 || !aligned({values.qkv.data, values.out.data}))
    return false;
  const std::lock_guard<std::mutex> lock(mutex());
  const cudnnHandle_t handle = library();
  return planned(handle, values, back).graph != nullptr;
}

void attend(const ExecSpace& space, const AttentionValues& values, Real* scratch) {
  run(space, values, nullptr, scratch);
}

void attendBack(const ExecSpace& space, const AttentionValues& values, const AttentionGradients& gradients) {
  run(space, values, &gradients, gradients.scratch);
}

void forgetAttention() {
  knownPlans().clear();
}

} // namespace partita::cudnn

#else

namespace partita::cudnn {

std::string attentionVersion() {
  return "";
}

bool attends(const AttentionValues&, bool) {
  return false;
}

void attend(const ExecSpace&, const AttentionValues&, Real*) {
  PARTITA_FAIL("this build has no cuDNN for attention");
}

void attendBack(const ExecSpace&, const AttentionValues&, const AttentionGradients&) {
  PARTITA_FAIL("this build has no cuDNN for attention");
}

void forgetAttention() {}

} // namespace partita::cudnn

#endif
