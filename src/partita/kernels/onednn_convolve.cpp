#include "partita/kernels/onednn_convolve.hpp"

#if defined(PARTITA_HAVE_ONEDNN) && !defined(PARTITA_DOUBLE)

#include "partita/core/region.hpp"
#include "partita/kernels/onednn.hpp"
#include "partita/kernels/onednn_products.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <memory>

namespace partita::onednn {

namespace {

using Tag = dnnl::memory::format_tag;

constexpr std::int64_t block = 16; // channels side by side in the blocked format

/// The type in which operands are multiplied.
Type operandType(Precision operands) {
  return operands != Precision::single && multiplies(operands) ? typeOf(operands) : Type::f32;
}

bool inBlocks(const ConvolutionPlan& plan) {
  return plan.in_channels % block == 0 && plan.out_channels % block == 0;
}

bool isFlat(const WindowPlan& w) {
  return w.in[0] == 1 && w.kernel[0] == 1 && w.out[0] == 1;
}

/// {first, second, extents}, without the depth of images.
Memory::dims sizeOf(std::int64_t first, std::int64_t second, const std::int64_t (&extents)[3], bool flat) {
  Memory::dims size{first, second};
  size.insert(size.end(), extents + (flat ? 1 : 0), extents + 3);
  return size;
}

/// Of values [rows, channels, extents], without the depth of images.
Memory::dims stridesOf(std::int64_t channels, const std::int64_t (&extents)[3], bool flat) {
  const std::int64_t plane = extents[1] * extents[2], places = extents[0] * plane;
  Memory::dims strides{channels * places, places};
  if (!flat) strides.push_back(plane);
  strides.push_back(extents[2]);
  strides.push_back(1);
  return strides;
}

Windows windowsOf(const WindowPlan& w, bool flat) {
  Windows windows;
  for (int a = flat ? 1 : 0; a < 3; ++a) {
    const std::int64_t reach = w.dilation[a] * (w.kernel[a] - 1) + 1;
    windows.stride.push_back(w.stride[a]);
    windows.dilation.push_back(w.dilation[a] - 1);
    windows.before.push_back(w.before[a]);
    windows.after.push_back(
        std::max<std::int64_t>(0, (w.out[a] - 1) * w.stride[a] + reach - w.in[a] - w.before[a]));
  }
  return windows;
}

/// The formats of values and weights, ours and the library's.
struct Formats {
  Memory::dims in, weight, out;
  Memory::dims in_strides, out_strides; ///< of the plain formats
  Tag plain_weight, packed;

  explicit Formats(const ConvolveCase& c) {
    const WindowPlan& w = c.plan.windows;
    const bool flat = isFlat(w);
    in = sizeOf(c.rows, c.plan.in_channels, w.in, flat);
    out = sizeOf(c.rows, c.plan.out_channels, w.out, flat);
    weight = sizeOf(c.plan.out_channels, c.plan.in_channels, w.kernel, flat);
    in_strides = stridesOf(c.plan.in_channels, c.block != nullptr ? c.block->whole_in : w.in, flat);
    out_strides = stridesOf(c.plan.out_channels, c.block != nullptr ? c.block->whole_out : w.out, flat);
    plain_weight = flat ? Tag::oihw : Tag::oidhw;
    const bool tiles = operandType(c.operands) != Type::f32 && supports(dnnl::cpu_isa::avx512_core_amx);
    if (inBlocks(c.plan) && !tiles)
      packed = flat ? Tag::nChw16c : Tag::nCdhw16c;
    else
      packed = flat ? Tag::nhwc : Tag::ndhwc;
  }

  Memory::desc plainIn() const { return {in, Type::f32, in_strides}; }
  Memory::desc plainOut() const { return {out, Type::f32, out_strides}; }
  Memory::desc plainWeight() const { return {weight, Type::f32, plain_weight}; }
  Memory::desc packedIn(Type type) const { return {in, type, packed}; }
  Memory::desc packedOut(Type type) const { return {out, type, packed}; }
  Memory::desc anyWeight(Type type) const { return {weight, type, Tag::any}; }
};

/// A convolution of one shape, compiled: sums, gradients, and the copies between the formats.
struct CompiledConvolve {
  Step forward, input_gradient, weight_gradient;
  Step pack_in, pack_grad, unpack_out, unpack_grad_in;
  Step pack_weight, pack_weight_back, unpack_weight_gradient, add_weight_gradient;
  std::size_t weight_bytes = 0; ///< of the largest packed weights

  explicit CompiledConvolve(const ConvolveCase& c) {
    const Formats formats(c);
    const Type type = operandType(c.operands);
    const Windows windows = windowsOf(c.plan.windows, isFlat(c.plan.windows));
    const Memory::desc in = formats.packedIn(type), sums = formats.packedOut(Type::f32),
                       grad = formats.packedOut(type), grad_in = formats.packedIn(Type::f32);
    const auto first = describeForward({in, formats.anyWeight(type), sums}, windows);
    const auto back = describeInputGradient({grad_in, formats.anyWeight(type), grad}, windows, first);
    const auto weights = describeWeightGradient({in, formats.anyWeight(Type::f32), grad}, windows, first);
    forward = {dnnl::convolution_forward(first),
               first.scratchpad_desc(),
               {{DNNL_ARG_SRC, in}, {DNNL_ARG_WEIGHTS, first.weights_desc()}, {DNNL_ARG_DST, sums}}};
    input_gradient = {
        dnnl::convolution_backward_data(back),
        back.scratchpad_desc(),
        {{DNNL_ARG_DIFF_DST, grad}, {DNNL_ARG_WEIGHTS, back.weights_desc()}, {DNNL_ARG_DIFF_SRC, grad_in}}};
    weight_gradient = {dnnl::convolution_backward_weights(weights),
                       weights.scratchpad_desc(),
                       {{DNNL_ARG_SRC, in},
                        {DNNL_ARG_DIFF_DST, grad},
                        {DNNL_ARG_DIFF_WEIGHTS, weights.diff_weights_desc()}}};
    pack_in = reorderStep(formats.plainIn(), in);
    pack_grad = reorderStep(formats.plainOut(), grad);
    unpack_out = reorderStep(sums, formats.plainOut());
    unpack_grad_in = reorderStep(grad_in, formats.plainIn());
    pack_weight = reorderStep(formats.plainWeight(), first.weights_desc());
    pack_weight_back = reorderStep(formats.plainWeight(), back.weights_desc());
    unpack_weight_gradient = reorderStep(weights.diff_weights_desc(), formats.plainWeight());
    add_weight_gradient = reorderStep(weights.diff_weights_desc(), formats.plainWeight(), true);
    weight_bytes = std::max({first.weights_desc().get_size(), back.weights_desc().get_size(),
                             weights.diff_weights_desc().get_size()});
  }
};

using ConvolveKey = std::array<std::int64_t, 28>;

ConvolveKey keyOf(const ConvolveCase& c) {
  ConvolveKey key{c.rows, c.plan.in_channels, c.plan.out_channels, static_cast<std::int64_t>(c.operands)};
  auto to = key.begin() + 4;
  const WindowPlan& w = c.plan.windows;
  for (const auto* values : {w.in, w.out, w.kernel, w.stride, w.dilation, w.before})
    to = std::copy(values, values + 3, to);
  const auto& whole_in = c.block != nullptr ? c.block->whole_in : w.in;
  const auto& whole_out = c.block != nullptr ? c.block->whole_out : w.out;
  std::copy(whole_out, whole_out + 3, std::copy(whole_in, whole_in + 3, to));
  return key;
}

/// The compiled form of a case, or null if the library has none, or one that needs more scratch than the plan
/// has. The mutex is held.
CompiledConvolve* compiled(const ConvolveCase& c) {
  static std::map<ConvolveKey, std::unique_ptr<CompiledConvolve>> cases;
  const ConvolveKey key = keyOf(c);
  const auto found = cases.find(key);
  if (found != cases.end()) return found->second.get();
  std::unique_ptr<CompiledConvolve> made;
  try {
    made = std::make_unique<CompiledConvolve>(c);
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
  }
  if (made && made->weight_bytes > static_cast<std::size_t>(c.plan.packedWeights()) * sizeof(Real))
    made.reset();
  return cases.emplace(key, std::move(made)).first->second.get();
}

/// Where the operands of a case lie in the scratch.
struct Work {
  Real *weight, *weight_gradient, *in, *out;

  Work(const ConvolveCase& c, Real* work) {
    const auto next = [&](std::int64_t values) {
      Real* const own = work;
      work += (values + packed_alignment - 1) / packed_alignment * packed_alignment;
      return own;
    };
    while (reinterpret_cast<std::uintptr_t>(work) % (packed_alignment * sizeof(Real)) != 0) ++work;
    weight = next(c.plan.packedWeights());
    weight_gradient = next(c.plan.packedWeights());
    in = next(c.rows * c.plan.in_channels * c.plan.windows.inPlaces());
    out = next(c.rows * c.plan.out_channels * c.plan.windows.outPlaces());
  }
};

} // namespace

bool convolves(const ConvolutionPlan& plan, Precision operands, std::int64_t rows,
               const ConvolutionBlock* block) {
  static const bool wide = supports(dnnl::cpu_isa::avx512_core);
  if (!wide || rows == 0 || !plan.packable()) return false;
  if (operandType(operands) == Type::f32 && !inBlocks(plan)) return false;
  const std::lock_guard<std::mutex> lock(mutex());
  const std::int64_t at_once = plan.packedRows(rows), left = rows % at_once;
  const ConvolutionPlan& computed = block != nullptr ? block->plan : plan;
  return compiled({computed, operands, at_once, block}) != nullptr &&
         (left == 0 || compiled({computed, operands, left, block}) != nullptr);
}

void convolveForward(const ExecSpace& space, const ConvolveCase& convolution, Real* work, const Real* in,
                     const Real* weight, Real* out) {
  const Region region(space, "partita::onednn::convolve", Phase::gemm);
  fence(space, "partita::onednn::convolve"); // the library computes at once
  const std::lock_guard<std::mutex> lock(mutex());
  CompiledConvolve& steps = *compiled(convolution);
  const Work packed(convolution, work);
  if (weight != nullptr) runReorder(steps.pack_weight, weight, packed.weight);
  const ConvolutionBlock* const block = convolution.block;
  runReorder(steps.pack_in, in + (block != nullptr ? block->first_in : 0), packed.in);
  steps.forward.run(
      {{DNNL_ARG_SRC, packed.in}, {DNNL_ARG_WEIGHTS, packed.weight}, {DNNL_ARG_DST, packed.out}});
  runReorder(steps.unpack_out, packed.out, out + (block != nullptr ? block->first_out : 0));
}

void convolveBackward(const ExecSpace& space, const ConvolveCase& convolution, Real* work, bool accumulate,
                      const Real* in, const Real* weight, const Real* grad, Real* weight_gradient,
                      Real* grad_in) {
  const Region region(space, "partita::onednn::convolve_back", Phase::gemm);
  fence(space, "partita::onednn::convolve_back");
  const std::lock_guard<std::mutex> lock(mutex());
  CompiledConvolve& steps = *compiled(convolution);
  const Work packed(convolution, work);
  runReorder(steps.pack_grad, grad, packed.out);
  if (weight_gradient != nullptr) {
    runReorder(steps.pack_in, in, packed.in);
    steps.weight_gradient.run({{DNNL_ARG_SRC, packed.in},
                               {DNNL_ARG_DIFF_DST, packed.out},
                               {DNNL_ARG_DIFF_WEIGHTS, packed.weight_gradient}});
    runReorder(accumulate ? steps.add_weight_gradient : steps.unpack_weight_gradient, packed.weight_gradient,
               weight_gradient);
  }
  if (grad_in == nullptr) return;
  if (weight != nullptr) runReorder(steps.pack_weight_back, weight, packed.weight);
  steps.input_gradient.run({{DNNL_ARG_DIFF_DST, packed.out},
                            {DNNL_ARG_WEIGHTS, packed.weight},
                            {DNNL_ARG_DIFF_SRC, packed.in}}); // the input is not needed any more
  runReorder(steps.unpack_grad_in, packed.in, grad_in);
}

} // namespace partita::onednn

#else

namespace partita::onednn {

bool convolves(const ConvolutionPlan&, Precision, std::int64_t, const ConvolutionBlock*) {
  return false;
}

void convolveForward(const ExecSpace&, const ConvolveCase&, Real*, const Real*, const Real*, Real*) {}

void convolveBackward(const ExecSpace&, const ConvolveCase&, Real*, bool, const Real*, const Real*,
                      const Real*, Real*, Real*) {}

} // namespace partita::onednn

#endif
