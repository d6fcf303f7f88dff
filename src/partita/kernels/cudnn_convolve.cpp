#include "partita/kernels/cudnn_convolve.hpp"

#if defined(PARTITA_HAVE_CUDNN)

#include "partita/core/provenance.hpp"
#include "partita/core/region.hpp"
#include "partita/kernels/bounded_cache.hpp"
#include "partita/kernels/cudnn_graphs.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace partita::cudnn {

namespace {

using ConvolveKey = std::array<std::int64_t, 26>;

ConvolveKey keyOf(const Wanted& wanted) {
  const ConvolveCase& c = wanted.c;
  ConvolveKey key{c.rows,
                  c.plan.in_channels,
                  c.plan.out_channels,
                  c.plan.groups,
                  2 * static_cast<std::int64_t>(c.operands) + (c.half ? 1 : 0),
                  static_cast<std::int64_t>(wanted.direction.type),
                  wanted.add ? 1 : 0,
                  wanted.alignment};
  auto to = key.begin() + 8;
  const WindowPlan& w = c.plan.windows;
  for (const auto* values : {w.in, w.out, w.kernel, w.stride, w.dilation, w.before})
    to = std::copy(values, values + 3, to);
  return key;
}

/// Empty: there is none that is fit.
using KnownPlans = BoundedCache<ConvolveKey, Descriptors>;
KnownPlans& knownPlans() {
  static KnownPlans plans(4096);
  return plans;
}

struct Addresses {
  const void *in, *weight, *out;

  /// Kernels differ by alignment up to 16 bytes.
  std::int64_t alignment(Precision stored) const {
    const auto bits = reinterpret_cast<std::uintptr_t>(in) | reinterpret_cast<std::uintptr_t>(weight) |
                      reinterpret_cast<std::uintptr_t>(out);
    return bits % value_alignment == 0 ? value_alignment : bytesOf(stored);
  }
};

/// The compiled form of one direction, or null if there is none that is fit; it may be gone after the next
/// call. The mutex is held.
const Descriptor* compiled(cudnnHandle_t handle, const ConvolveCase& c, const Direction& direction,
                           const Addresses& addresses, bool add = false) {
  const Wanted wanted{c, direction, add, addresses.alignment(c.stored())};
  const Descriptors& found = knownPlans().get(keyOf(wanted), [&] { return planOf(handle, wanted); });
  return found.empty() ? nullptr : &found.back();
}

std::string textOf(const ConvolveCase& c) {
  const auto text = [](const std::int64_t(&sizes)[3]) {
    return std::to_string(sizes[0]) + "x" + std::to_string(sizes[1]) + "x" + std::to_string(sizes[2]);
  };
  return "a convolution of " + std::to_string(c.rows) + " rows, " + std::to_string(c.plan.in_channels) +
         " channels of " + text(c.plan.windows.in) + " to " + std::to_string(c.plan.out_channels) + " of " +
         text(c.plan.windows.out) + ", windows of " + text(c.plan.windows.kernel);
}

void run(cudnnHandle_t handle, const ConvolveCase& convolution, const Descriptor& plan,
         const Addresses& addresses, Real* work) {
  const std::array<const void*, 3> pointers{addresses.in, addresses.weight, addresses.out};
  Descriptor arguments(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  arguments.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {in_id, weight_id, out_id});
  arguments.setArray(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers.data());
  arguments.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, alignedIn(work));
  arguments.finalise();
  const cudnnStatus_t status = cudnnBackendExecute(handle, plan.raw(), arguments.raw());
  if (status != CUDNN_STATUS_SUCCESS) checkCudnn(status, "cudnnBackendExecute", textOf(convolution));
}

bool takesHalf(const ConvolveCase& halves, const Direction& direction) {
  if (halves.operands == Precision::single || sizeof(Real) != sizeof(float) || halves.rows == 0) return false;
  const std::lock_guard<std::mutex> lock(mutex());
  return compiled(library(), halves, direction, Addresses{}) != nullptr;
}

} // namespace

std::string version() {
  return versionText(cudnnGetVersion());
}

bool forwardTakesHalf(const ConvolutionPlan& plan, Precision operands, std::int64_t rows) {
  return takesHalf({plan, operands, rows, true}, forward_direction);
}

bool backwardTakesHalf(const ConvolutionPlan& plan, Precision operands, std::int64_t rows, bool of_input) {
  const ConvolveCase halves{plan, operands, rows, true};
  return takesHalf(halves, weight_direction) && (!of_input || takesHalf(halves, input_direction));
}

bool convolveForward(const ExecSpace& space, const ConvolveCase& convolution, Real* work, const void* in,
                     const void* weight, void* out) {
  if (convolution.rows == 0) return false;
  const Region region(space, "partita::cudnn::convolve", Phase::gemm);
  const std::lock_guard<std::mutex> lock(mutex());
  const cudnnHandle_t handle = handleOn(space);
  const Addresses addresses{in, weight, out};
  const Descriptor* const plan = compiled(handle, convolution, forward_direction, addresses);
  if (plan == nullptr) return false;
  run(handle, convolution, *plan, addresses, work);
  return true;
}

bool convolveBackward(const ExecSpace& space, const ConvolveCase& convolution, Real* work,
                      const ConvolveGradients& gradients) {
  if (convolution.rows == 0) return false;
  const Region region(space, "partita::cudnn::convolve_back", Phase::gemm);
  const std::lock_guard<std::mutex> lock(mutex());
  const cudnnHandle_t handle = handleOn(space);
  const Addresses to_weights{gradients.in.data, gradients.weight_gradient.data, gradients.grad.data},
      to_input{gradients.grad_in.data, gradients.weight.data, gradients.grad.data};
  const bool of_weights = gradients.ofWeight(), of_input = gradients.ofInput();
  const auto weights = [&] {
    return compiled(handle, convolution, weight_direction, to_weights, gradients.accumulate);
  };
  const auto input = [&] { return compiled(handle, convolution, input_direction, to_input); };
  if ((of_weights && weights() == nullptr) || (of_input && input() == nullptr)) return false;
  if (of_weights) run(handle, convolution, *weights(), to_weights, work);
  if (of_input) run(handle, convolution, *input(), to_input, work);
  return true;
}

void forgetConvolutions() {
  knownPlans().clear();
}

} // namespace partita::cudnn

#else

namespace partita::cudnn {

std::string version() {
  return "";
}

bool forwardTakesHalf(const ConvolutionPlan&, Precision, std::int64_t) {
  return false;
}

bool backwardTakesHalf(const ConvolutionPlan&, Precision, std::int64_t, bool) {
  return false;
}

bool convolveForward(const ExecSpace&, const ConvolveCase&, Real*, const void*, const void*, void*) {
  return false;
}

bool convolveBackward(const ExecSpace&, const ConvolveCase&, Real*, const ConvolveGradients&) {
  return false;
}

void forgetConvolutions() {}

} // namespace partita::cudnn

#endif
