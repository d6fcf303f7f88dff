#include "partita/kernels/cudnn_graphs.hpp"

#if defined(PARTITA_HAVE_CUDNN)

#include <algorithm>
#include <array>
#include <utility>

namespace partita::cudnn {

const Direction forward_direction{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
const Direction weight_direction{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
const Direction input_direction{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};

namespace {

using Sizes = std::vector<std::int64_t>;

constexpr cudnnDataType_t real = sizeof(Real) == sizeof(double) ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;

cudnnDataType_t typeOf(Precision precision) {
  if (precision == Precision::bf16) return CUDNN_DATA_BFLOAT16;
  return precision == Precision::fp16 ? CUDNN_DATA_HALF : real;
}

constexpr cudnnBackendAttributeType_t real_attribute =
    sizeof(Real) == sizeof(double) ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;

/// Images have two axes, and volumes three.
std::size_t firstAxis(const WindowPlan& w) {
  return w.flat() ? 1 : 0;
}

Sizes axesOf(const WindowPlan& w, const std::int64_t (&values)[3]) {
  return {values + firstAxis(w), values + 3};
}

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
  Descriptor windows(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  windows.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, real);
  windows.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  windows.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64,
              static_cast<std::int64_t>(3 - firstAxis(w)));
  windows.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, axesOf(w, w.stride));
  windows.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, axesOf(w, w.dilation));
  windows.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, axesOf(w, w.before));
  windows.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, axesOf(w, w.before));
  windows.finalise();
  return windows;
}

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
/// 16 bits may be multiplied in TF32, which represents all of them. For `Real`, engines that promise to pass
/// on NaN are not fit either. In cuDNN 9 this is only the last resort, and columns are used instead.
bool isFit(const Descriptor& configuration, Precision operands) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.raw();
  configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const std::int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                        CUDNN_NUMERICAL_NOTE_TYPE_COUNT, notes.data());
  const auto known = std::min<std::int64_t>(count, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  return std::none_of(notes.begin(), notes.begin() + known, [&](cudnnBackendNumericalNote_t note) {
    if (note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP) return operands == Precision::single;
    return note != CUDNN_NUMERICAL_NOTE_TENSOR_CORE || operands == Precision::single;
  });
}

Descriptors proposals(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  constexpr std::size_t most = 64; // those for floats come after 16 or more for tensor cores
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

} // namespace

Descriptors planOf(cudnnHandle_t handle, const Wanted& wanted) {
  const std::int64_t scratch =
      wanted.c.plan.workValues(wanted.c.rows) - wanted.c.weightValues() - packed_alignment;
  // With other paddings, engines gave wrong gradients of weights on an H200 (cuDNN 9.19, double).
  if (scratch < 0 || !wanted.c.plan.windows.evenlyPadded()) return {};
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

} // namespace partita::cudnn

#endif
