#include "partita/kernels/onednn_convolve.hpp"

#if defined(PARTITA_HAVE_ONEDNN) && !defined(PARTITA_DOUBLE)

#include "partita/core/region.hpp"
#include "partita/core/typed_matrix.hpp"
#include "partita/kernels/onednn.hpp"
#include "partita/kernels/onednn_products.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

namespace partita::onednn {

namespace {

using Tag = dnnl::memory::format_tag;

/// The type in which operands are multiplied.
Type operandType(Precision operands) {
  return operands != Precision::single && multiplies(operands) ? typeOf(operands) : Type::f32;
}

/// The type in which values lie.
Type valueType(const ConvolveCase& c) {
  return c.half ? operandType(c.operands) : Type::f32;
}

/// {first, second, extents}, without the depth of images.
Memory::dims sizeOf(std::int64_t first, std::int64_t second, const std::int64_t (&extents)[3], bool flat) {
  Memory::dims size{first, second};
  size.insert(size.end(), extents + (flat ? 1 : 0), extents + 3);
  return size;
}

/// Of values [rows, channels, extents] whose channels lie side by side, without the depth of images.
Memory::dims stridesOf(std::int64_t channels, const std::int64_t (&extents)[3], bool flat) {
  const std::int64_t line = extents[2] * channels, plane = extents[1] * line;
  Memory::dims strides{extents[0] * plane, 1};
  if (!flat) strides.push_back(plane);
  strides.push_back(line);
  strides.push_back(channels);
  return strides;
}

/// Weights of several groups have an axis of groups first.
Memory::dims weightSizeOf(const ConvolutionPlan& plan, bool flat) {
  Memory::dims size =
      sizeOf(plan.out_channels / plan.groups, plan.in_channels / plan.groups, plan.windows.kernel, flat);
  if (plan.groups > 1) size.insert(size.begin(), plan.groups);
  return size;
}

Tag weightTag(bool grouped, bool flat) {
  if (grouped) return flat ? Tag::goihw : Tag::goidhw;
  return flat ? Tag::oihw : Tag::oidhw;
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

/// The formats of values and weights. Values are ours, with channels side by side, which is as fast as any
/// format of the library; blocks are copied, and so are floats that are multiplied in 16 bits.
struct Formats {
  Memory::dims in, weight, out;
  Memory::dims in_strides, out_strides; ///< of the whole, if the convolution is a block of it
  Tag channels_last, plain_weight;

  explicit Formats(const ConvolveCase& c) {
    const WindowPlan& w = c.plan.windows;
    const bool flat = w.flat();
    in = sizeOf(c.rows, c.plan.in_channels, w.in, flat);
    out = sizeOf(c.rows, c.plan.out_channels, w.out, flat);
    weight = weightSizeOf(c.plan, flat);
    in_strides = stridesOf(c.plan.in_channels, c.block != nullptr ? c.block->whole_in : w.in, flat);
    out_strides = stridesOf(c.plan.out_channels, c.block != nullptr ? c.block->whole_out : w.out, flat);
    channels_last = flat ? Tag::nhwc : Tag::ndhwc;
    plain_weight = weightTag(c.plan.groups > 1, flat);
  }

  Memory::desc wholeIn() const { return {in, Type::f32, in_strides}; }
  Memory::desc wholeOut() const { return {out, Type::f32, out_strides}; }
  Memory::desc plainWeight() const { return {weight, Type::f32, plain_weight}; }
  Memory::desc inOf(Type type) const { return {in, type, channels_last}; }
  Memory::desc outOf(Type type) const { return {out, type, channels_last}; }
  Memory::desc anyWeight(Type type) const { return {weight, type, Tag::any}; }
  Memory::desc bias() const { return {{out[1]}, Type::f32, Tag::a}; }
};

/// Loops that are not compiled take very long. One product per group, of columns, is what `Convolve` computes
/// without the library.
bool isPlain(const char* implementation, std::int64_t groups) {
  const std::string name(implementation);
  return name.rfind("ref", 0) == 0 ||
         (groups > 1 && (name.rfind("gemm:", 0) == 0 || name.find(":gemm:") != std::string::npos));
}

/// A convolution of one shape, compiled: sums, gradients, and the copies between formats that these need.
struct CompiledConvolve {
  Step input_gradient, weight_gradient;
  Step pack_in, pack_grad, unpack_out; ///< of values that are not used where they lie
  Step pack_weight, pack_weight_back, unpack_weight_gradient, add_weight_gradient;
  bool packs, unpacks;
  bool plain = false;           ///< see `isPlain`
  Memory::desc weight;          ///< packed, for the sums
  std::size_t weight_bytes = 0; ///< of the largest packed weights

  explicit CompiledConvolve(const ConvolveCase& c)
      : packs(c.block != nullptr || operandType(c.operands) != valueType(c)), unpacks(c.block != nullptr) {
    const Formats formats(c);
    const Type type = operandType(c.operands);
    const Windows windows = windowsOf(c.plan.windows, c.plan.windows.flat());
    const Memory::desc in = formats.inOf(type), sums = formats.outOf(valueType(c)),
                       grad = formats.outOf(type), grad_in = formats.inOf(valueType(c));
    const auto first = describeForward({in, formats.anyWeight(type), sums}, Memory::desc(), windows, false);
    const auto back = describeInputGradient({grad_in, formats.anyWeight(type), grad}, windows, first);
    const auto weights = describeWeightGradient({in, formats.anyWeight(Type::f32), grad}, windows, first);
    for (const char* name : {first.impl_info_str(), back.impl_info_str(), weights.impl_info_str()})
      plain = plain || isPlain(name, c.plan.groups);
    weight = first.weights_desc();
    input_gradient = {
        dnnl::convolution_backward_data(back),
        back.scratchpad_desc(),
        {{DNNL_ARG_DIFF_DST, grad}, {DNNL_ARG_WEIGHTS, back.weights_desc()}, {DNNL_ARG_DIFF_SRC, grad_in}}};
    weight_gradient = {dnnl::convolution_backward_weights(weights),
                       weights.scratchpad_desc(),
                       {{DNNL_ARG_SRC, in},
                        {DNNL_ARG_DIFF_DST, grad},
                        {DNNL_ARG_DIFF_WEIGHTS, weights.diff_weights_desc()}}};
    if (packs) pack_in = reorderStep(formats.wholeIn(), in);
    if (packs) pack_grad = reorderStep(formats.wholeOut(), grad);
    if (unpacks) unpack_out = reorderStep(sums, formats.wholeOut());
    pack_weight = reorderStep(formats.plainWeight(), weight);
    pack_weight_back = reorderStep(formats.plainWeight(), back.weights_desc());
    unpack_weight_gradient = reorderStep(weights.diff_weights_desc(), formats.plainWeight());
    add_weight_gradient = reorderStep(weights.diff_weights_desc(), formats.plainWeight(), true);
    weight_bytes =
        std::max({weight.get_size(), back.weights_desc().get_size(), weights.diff_weights_desc().get_size()});
  }

  /// The sums and their epilogue, which is compiled when it is first wanted.
  Step& forward(const ConvolveCase& c) {
    const bool biased = c.epilogue.bias != nullptr, relu = c.epilogue.relu;
    const auto key = std::make_pair(biased, relu);
    const auto found = _forward.find(key);
    if (found != _forward.end()) return found->second;
    ++compiled_count;
    const Formats formats(c);
    const Memory::desc in = formats.inOf(operandType(c.operands)), sums = formats.outOf(valueType(c)),
                       bias = biased ? formats.bias() : Memory::desc();
    const auto described =
        describeForward({in, weight, sums}, bias, windowsOf(c.plan.windows, c.plan.windows.flat()), relu);
    std::vector<Step::Operand> operands{{DNNL_ARG_SRC, in}, {DNNL_ARG_WEIGHTS, weight}, {DNNL_ARG_DST, sums}};
    if (biased) operands.emplace_back(DNNL_ARG_BIAS, bias);
    return _forward
        .emplace(key, Step(dnnl::convolution_forward(described), described.scratchpad_desc(), operands))
        .first->second;
  }

 private:
  std::map<std::pair<bool, bool>, Step> _forward; ///< by bias and ReLU
};

using ConvolveKey = std::array<std::int64_t, 29>;

ConvolveKey keyOf(const ConvolveCase& c) {
  ConvolveKey key{c.rows, c.plan.in_channels, c.plan.out_channels, c.plan.groups,
                  2 * static_cast<std::int64_t>(c.operands) + (c.half ? 1 : 0)};
  auto to = key.begin() + 5;
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
  static CountedCache<ConvolveKey, std::unique_ptr<CompiledConvolve>> cases(1024);
  const auto compile = [&] {
    std::unique_ptr<CompiledConvolve> made;
    try {
      made = std::make_unique<CompiledConvolve>(c);
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
    }
    if (made && made->plain && (c.plan.groups > 1 || !multiplies(Precision::single))) made.reset();
    if (made && made->weight_bytes > static_cast<std::size_t>(c.plan.packedWeights()) * sizeof(Real))
      made.reset();
    return made;
  };
  return cases.get(keyOf(c), compile).get();
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
    work = alignedIn(work);
    weight = next(c.plan.packedWeights());
    weight_gradient = next(c.plan.packedWeights());
    in = next(c.rows * c.plan.in_channels * c.plan.windows.inPlaces());
    out = next(c.rows * c.plan.out_channels * c.plan.windows.outPlaces());
  }
};

} // namespace

bool convolvesFloats() {
  static const bool usable = supports(dnnl::cpu_isa::avx2);
  return usable;
}

bool convolves(const ConvolutionPlan& plan, Precision operands, std::int64_t rows,
               const ConvolutionBlock* block, bool half) {
  if (!convolvesFloats() || rows == 0 || !plan.packable()) return false;
  // For floats whose channels do not fill vectors, the library is slower than columns. Where it multiplies
  // floats, convolutions of single places are products. Neither holds for groups, whose products are narrow.
  const bool one_group = plan.groups == 1;
  if (operandType(operands) == Type::f32 && (half || (one_group && !plan.fillsVectors()))) return false;
  if (one_group && plan.windows.taps() == 1 && !half && (block != nullptr || multiplies(Precision::single)))
    return false;
  const std::lock_guard<std::mutex> lock(mutex());
  const std::int64_t at_once = plan.packedRows(rows), left = rows % at_once;
  const ConvolutionPlan& computed = block != nullptr ? block->plan : plan;
  return compiled({computed, operands, at_once, block, {}, half}) != nullptr &&
         (left == 0 || compiled({computed, operands, left, block, {}, half}) != nullptr);
}

void convolveForward(const ExecSpace& space, const ConvolveCase& convolution, Real* work, const void* in,
                     const Real* weight, void* out) {
  const Region region(space, "partita::onednn::convolve", Phase::gemm);
  fence(space, "partita::onednn::convolve"); // the library computes at once
  const std::lock_guard<std::mutex> lock(mutex());
  CompiledConvolve& steps = *compiled(convolution);
  const Work packed(convolution, work);
  const ConvolutionBlock* const block = convolution.block;
  const std::int64_t before_in = block != nullptr ? block->first_in * convolution.plan.in_channels : 0,
                     before_out = block != nullptr ? block->first_out * convolution.plan.out_channels : 0;
  if (weight != nullptr) runReorder(steps.pack_weight, weight, packed.weight);
  if (steps.packs) runReorder(steps.pack_in, static_cast<const Real*>(in) + before_in, packed.in);
  steps.forward(convolution)
      .run({{DNNL_ARG_SRC, steps.packs ? packed.in : in},
            {DNNL_ARG_WEIGHTS, packed.weight},
            {DNNL_ARG_BIAS, convolution.epilogue.bias},
            {DNNL_ARG_DST, steps.unpacks ? packed.out : out}});
  if (steps.unpacks) runReorder(steps.unpack_out, packed.out, static_cast<Real*>(out) + before_out);
}

void convolveBackward(const ExecSpace& space, const ConvolveCase& convolution, Real* work,
                      const ConvolveGradients& gradients) {
  const Region region(space, "partita::onednn::convolve_back", Phase::gemm);
  fence(space, "partita::onednn::convolve_back");
  const std::lock_guard<std::mutex> lock(mutex());
  CompiledConvolve& steps = *compiled(convolution);
  const Work packed(convolution, work);
  if (steps.packs) runReorder(steps.pack_grad, gradients.grad.data, packed.out);
  const void* const from = steps.packs ? packed.out : gradients.grad.data;
  if (gradients.ofWeight()) {
    if (steps.packs) runReorder(steps.pack_in, gradients.in.data, packed.in);
    steps.weight_gradient.run({{DNNL_ARG_SRC, steps.packs ? packed.in : gradients.in.data},
                               {DNNL_ARG_DIFF_DST, from},
                               {DNNL_ARG_DIFF_WEIGHTS, packed.weight_gradient}});
    runReorder(gradients.accumulate ? steps.add_weight_gradient : steps.unpack_weight_gradient,
               packed.weight_gradient, gradients.weight_gradient.data);
  }
  if (!gradients.ofInput()) return;
  if (gradients.weight.size() > 0) runReorder(steps.pack_weight_back, gradients.weight.data, packed.weight);
  steps.input_gradient.run({{DNNL_ARG_DIFF_DST, from},
                            {DNNL_ARG_WEIGHTS, packed.weight},
                            {DNNL_ARG_DIFF_SRC, gradients.grad_in.data}});
}

} // namespace partita::onednn

#else

namespace partita::onednn {

bool convolvesFloats() {
  return false;
}

bool convolves(const ConvolutionPlan&, Precision, std::int64_t, const ConvolutionBlock*, bool) {
  return false;
}

void convolveForward(const ExecSpace&, const ConvolveCase&, Real*, const void*, const Real*, void*) {
  PARTITA_FAIL("this build has no oneDNN");
}

void convolveBackward(const ExecSpace&, const ConvolveCase&, Real*, const ConvolveGradients&) {
  PARTITA_FAIL("this build has no oneDNN");
}

} // namespace partita::onednn

#endif
