#include "partita/kernels/cudnn_convolve.hpp"

#if defined(PARTITA_HAVE_CUDNN)

#include "partita/core/region.hpp"
#include "partita/kernels/cudnn.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace partita::cudnn {

namespace {

using Sizes = std::vector<std::int64_t>;

/// The three ways to compute with a convolution, and the names that the library has for their parts.
struct Direction {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t in, weight, out, windows, alpha, beta;
};

constexpr Direction forward_direction{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr Direction weight_direction{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
constexpr Direction input_direction{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};

constexpr cudnnDataType_t real = sizeof(Real) == sizeof(double) ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
cudnnDataType_t typeOf(Precision precision) {
  if (precision == Precision::bf16) return CUDNN_DATA_BFLOAT16;
  return precision == Precision::fp16 ? CUDNN_DATA_HALF : real;
}
constexpr cudnnBackendAttributeType_t real_attribute =
    sizeof(Real) == sizeof(double) ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;

/// Images have two axes, and volumes three.
std::size_t firstAxis(const WindowPlan& w) {
  return w.in[0] == 1 && w.kernel[0] == 1 && w.out[0] == 1 ? 1 : 0;
}

Sizes axesOf(const WindowPlan& w, const std::int64_t (&values)[3]) {
  return {values + firstAxis(w), values + 3};
}

/// What a compiled direction depends on. With `add` the result is added to what is there.
struct Wanted {
  const ConvolveCase& c;
  const Direction& direction;
  bool add;
  std::int64_t alignment; ///< bytes of which all addresses are multiples
};

/// A dense tensor {first, second, places...} that lies in memory as {first, places..., second}.
Descriptor tensorOf(const Wanted& wanted, std::int64_t id, std::int64_t first, std::int64_t second,
                    const Sizes& places) {
  Sizes sizes{first, second};
  sizes.insert(sizes.end(), places.begin(), places.end());
  Sizes strides(sizes.size(), 1);
  strides.back() = second;
  for (std::size_t i = sizes.size() - 1; i > 2; --i) strides[i - 1] = strides[i] * sizes[i];
  strides[0] = strides[2] * sizes[2];
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, typeOf(wanted.c.stored()));
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, wanted.alignment);
  tensor.finalise();
  return tensor;
}

Descriptor windowsOf(const WindowPlan& w) {
  Sizes after;
  for (std::size_t a = firstAxis(w); a < 3; ++a) {
    const std::int64_t reach = w.dilation[a] * (w.kernel[a] - 1) + 1;
    after.push_back(std::max<std::int64_t>(0, (w.out[a] - 1) * w.stride[a] + reach - w.in[a] - w.before[a]));
  }
  Descriptor windows(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  windows.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, real);
  windows.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  windows.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, static_cast<std::int64_t>(after.size()));
  windows.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, axesOf(w, w.stride));
  windows.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, axesOf(w, w.dilation));
  windows.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, axesOf(w, w.before));
  windows.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, after);
  windows.finalise();
  return windows;
}

enum TensorId : std::int64_t { in_id = 1, weight_id = 2, out_id = 3 };

/// Descriptors that refer to those before them, which are kept with them; the last one is what is wanted.
using Descriptors = std::vector<Descriptor>;

/// One direction of a convolution as a graph of one operation.
Descriptors graphOf(cudnnHandle_t handle, const Wanted& wanted) {
  const ConvolutionPlan& plan = wanted.c.plan;
  const WindowPlan& w = plan.windows;
  const Direction& direction = wanted.direction;
  Descriptor in = tensorOf(wanted, in_id, wanted.c.rows, plan.in_channels, axesOf(w, w.in)),
             weight = tensorOf(wanted, weight_id, plan.out_channels, plan.in_channels / plan.groups,
                               axesOf(w, w.kernel)),
             out = tensorOf(wanted, out_id, wanted.c.rows, plan.out_channels, axesOf(w, w.out)),
             windows = windowsOf(w), operation(direction.type),
             graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  operation.set(direction.in, in);
  operation.set(direction.weight, weight);
  operation.set(direction.out, out);
  operation.set(direction.windows, windows);
  operation.set(direction.alpha, real_attribute, Real(1));
  operation.set(direction.beta, real_attribute, wanted.add ? Real(1) : Real(0));
  operation.finalise();
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  graph.finalise();
  Descriptors all;
  for (Descriptor* each : {&in, &weight, &out, &windows, &operation, &graph}) all.push_back(std::move(*each));
  return all;
}

/// Does an engine give the same bits each time, and does it compute with what the operands hold? Numbers of
/// 16 bits may be multiplied in TF32, which represents all of them.
bool isFit(const Descriptor& configuration, Precision operands) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.raw();
  configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const std::int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                        CUDNN_NUMERICAL_NOTE_TYPE_COUNT, notes.data());
  const auto known = std::min<std::int64_t>(count, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  return std::none_of(notes.begin(), notes.begin() + known, [&](cudnnBackendNumericalNote_t note) {
    if (note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP) return false;
    const bool rounds =
        note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE || note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    return !(rounds && operands != Precision::single);
  });
}

Descriptors proposals(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  constexpr std::size_t most = 16;
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  Descriptors found;
  if (!heuristic.tryToFinalise()) return found;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::size_t i = 0; i < most; ++i) {
    found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(found.back().raw());
  }
  const std::int64_t count = heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                           std::int64_t{most}, raw.data());
  while (static_cast<std::int64_t>(found.size()) > count) found.pop_back();
  return found;
}

/// The first proposal that is fit, that the library can compile, and whose scratch is small enough; or none.
Descriptors planOf(cudnnHandle_t handle, const Wanted& wanted) {
  const std::int64_t scratch =
      wanted.c.plan.workValues(wanted.c.rows) - wanted.c.weightValues() - packed_alignment;
  if (scratch < 0) return {};
  const auto most = scratch * static_cast<std::int64_t>(sizeof(Real));
  Descriptors all = graphOf(handle, wanted);
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (Descriptor& configuration : proposals(all.back(), mode)) {
      if (!isFit(configuration, wanted.c.operands)) continue;
      Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      if (!plan.tryToFinalise()) continue;
      std::int64_t bytes = 0;
      plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
      if (bytes > most) continue;
      all.push_back(std::move(configuration));
      all.push_back(std::move(plan));
      return all;
    }
  }
  return {};
}

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
using KnownPlans = std::map<ConvolveKey, Descriptors>;
KnownPlans& knownPlans() {
  static KnownPlans plans;
  return plans;
}

/// Forgets the plans of batches that changed all the time. Call before any is taken.
void limitPlans() {
  constexpr std::size_t most = 4096;
  if (knownPlans().size() >= most) knownPlans().clear();
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

/// The compiled form of one direction, or null if there is none that is fit. The mutex is held.
const Descriptor* compiled(cudnnHandle_t handle, const ConvolveCase& c, const Direction& direction,
                           const Addresses& addresses, bool add = false) {
  const Wanted wanted{c, direction, add, addresses.alignment(c.stored())};
  const ConvolveKey key = keyOf(wanted);
  auto found = knownPlans().find(key);
  if (found == knownPlans().end()) found = knownPlans().emplace(key, planOf(handle, wanted)).first;
  return found->second.empty() ? nullptr : &found->second.back();
}

/// The library's scratch begins at a multiple of 64 bytes.
Real* alignedIn(Real* work) {
  while (reinterpret_cast<std::uintptr_t>(work) % (packed_alignment * sizeof(float)) != 0) ++work;
  return work;
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
  arguments.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, Sizes{in_id, weight_id, out_id});
  arguments.setArray(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers.data());
  arguments.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, alignedIn(work));
  arguments.finalise();
  const cudnnStatus_t status = cudnnBackendExecute(handle, plan.raw(), arguments.raw());
  if (status != CUDNN_STATUS_SUCCESS) checkCudnn(status, "cudnnBackendExecute", textOf(convolution));
}

} // namespace

std::string version() {
  const std::size_t number = cudnnGetVersion();
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

bool takesHalf(const ConvolutionPlan& plan, Precision operands, std::int64_t rows) {
  if (operands == Precision::single || sizeof(Real) != sizeof(float) || rows == 0) return false;
  const std::lock_guard<std::mutex> lock(mutex());
  limitPlans();
  const ConvolveCase halves{plan, operands, rows, true};
  for (const Direction* direction : {&forward_direction, &weight_direction, &input_direction})
    if (compiled(library(), halves, *direction, Addresses{}) == nullptr) return false;
  return true;
}

bool convolveForward(const ExecSpace& space, const ConvolveCase& convolution, Real* work, const void* in,
                     const void* weight, void* out) {
  if (convolution.rows == 0) return false;
  const Region region(space, "partita::cudnn::convolve", Phase::gemm);
  const std::lock_guard<std::mutex> lock(mutex());
  const cudnnHandle_t handle = handleOn(space);
  limitPlans();
  const Addresses addresses{in, weight, out};
  const Descriptor* const plan = compiled(handle, convolution, forward_direction, addresses);
  if (plan == nullptr) return false;
  run(handle, convolution, *plan, addresses, work);
  return true;
}

bool convolveBackward(const ExecSpace& space, const ConvolveCase& convolution, Real* work, bool accumulate,
                      const void* in, const void* weight, const void* grad, void* weight_gradient,
                      void* grad_in) {
  if (convolution.rows == 0) return false;
  const Region region(space, "partita::cudnn::convolve_back", Phase::gemm);
  const std::lock_guard<std::mutex> lock(mutex());
  const cudnnHandle_t handle = handleOn(space);
  limitPlans();
  const Addresses to_weights{in, weight_gradient, grad}, to_input{grad_in, weight, grad};
  const bool of_weights = weight_gradient != nullptr, of_input = grad_in != nullptr;
  const Descriptor *const weights = of_weights ? compiled(handle, convolution, weight_direction, to_weights,
                                                          accumulate)
                                               : nullptr,
                          *const input =
                              of_input ? compiled(handle, convolution, input_direction, to_input) : nullptr;
  if ((of_weights && weights == nullptr) || (of_input && input == nullptr)) return false;
  if (of_weights) run(handle, convolution, *weights, to_weights, work);
  if (of_input) run(handle, convolution, *input, to_input, work);
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

bool takesHalf(const ConvolutionPlan&, Precision, std::int64_t) {
  return false;
}

bool convolveForward(const ExecSpace&, const ConvolveCase&, Real*, const void*, const void*, void*) {
  return false;
}

bool convolveBackward(const ExecSpace&, const ConvolveCase&, Real*, bool, const void*, const void*,
                      const void*, void*, void*) {
  return false;
}

void forgetConvolutions() {}

} // namespace partita::cudnn

#endif
