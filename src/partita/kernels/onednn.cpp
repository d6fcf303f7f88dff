#include "partita/kernels/onednn.hpp"

#if defined(PARTITA_HAVE_ONEDNN) && !defined(PARTITA_DOUBLE)

#include <oneapi/dnnl/dnnl_version.h>

namespace partita::onednn {

const dnnl::engine& engine() {
  static const dnnl::engine host(dnnl::engine::kind::cpu, 0);
  return host;
}

namespace {
/// A library that was built for SYCL has no engine where its runtime finds no processor.
bool hasEngine() {
  try {
    engine();
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}
} // namespace

bool supports(dnnl::cpu_isa wanted) {
  static const bool usable = hasEngine();
  if (!usable) return false;
  // Each set of instructions has the bits of those that it contains.
  const auto has = static_cast<unsigned>(dnnl::get_effective_cpu_isa()),
             asked = static_cast<unsigned>(wanted);
  return (has & asked) == asked;
}

Type typeOf(Precision precision) {
  return precision == Precision::single ? Type::f32 : precision == Precision::bf16 ? Type::bf16 : Type::f16;
}

std::int64_t compiled_count = 0;

std::mutex& mutex() {
  static std::mutex mutex;
  return mutex;
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

namespace {

dnnl::primitive_attr withRelu(bool relu) {
  dnnl::primitive_attr with = attributes();
  if (!relu) return with;
  dnnl::post_ops operations;
  appendRelu(operations);
  with.set_post_ops(operations);
  return with;
}

} // namespace

#if DNNL_VERSION_MAJOR < 3

void appendFactor(dnnl::post_ops& operations, float factor) {
  operations.append_eltwise(1.0F, dnnl::algorithm::eltwise_linear, factor, 0.0F);
}

void appendRelu(dnnl::post_ops& operations) {
  operations.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
}

namespace {

dnnl::matmul::primitive_desc describeProduct(const Memory::desc& a, const Memory::desc& b,
                                             const Memory::desc& bias, const Memory::desc& c,
                                             const dnnl::primitive_attr& attributes) {
  return {dnnl::matmul::desc(a, b, bias, c), attributes, engine()};
}

} // namespace

dnnl::convolution_forward::primitive_desc
describeForward(const ConvolveFormats& formats, const Memory::desc& bias, const Windows& windows, bool relu) {
  return {dnnl::convolution_forward::desc(dnnl::prop_kind::forward_training,
                                          dnnl::algorithm::convolution_direct, formats.in, formats.weight,
                                          bias, formats.out, windows.stride, windows.dilation, windows.before,
                                          windows.after),
          withRelu(relu), engine()};
}

dnnl::convolution_backward_data::primitive_desc
describeInputGradient(const ConvolveFormats& formats, const Windows& windows,
                      const dnnl::convolution_forward::primitive_desc& forward) {
  return {dnnl::convolution_backward_data::desc(dnnl::algorithm::convolution_direct, formats.in,
                                                formats.weight, formats.out, windows.stride, windows.dilation,
                                                windows.before, windows.after),
          attributes(), engine(), forward};
}

dnnl::convolution_backward_weights::primitive_desc
describeWeightGradient(const ConvolveFormats& formats, const Windows& windows,
                       const dnnl::convolution_forward::primitive_desc& forward) {
  return {dnnl::convolution_backward_weights::desc(dnnl::algorithm::convolution_direct, formats.in,
                                                   formats.weight, formats.out, windows.stride,
                                                   windows.dilation, windows.before, windows.after),
          attributes(), engine(), forward};
}

#else

void appendFactor(dnnl::post_ops& operations, float factor) {
  operations.append_eltwise(dnnl::algorithm::eltwise_linear, factor, 0.0F);
}

void appendRelu(dnnl::post_ops& operations) {
  operations.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
}

namespace {

dnnl::matmul::primitive_desc describeProduct(const Memory::desc& a, const Memory::desc& b,
                                             const Memory::desc& bias, const Memory::desc& c,
                                             const dnnl::primitive_attr& attributes) {
  if (bias.is_zero()) return {engine(), a, b, c, attributes};
  return {engine(), a, b, bias, c, attributes};
}

} // namespace

dnnl::convolution_forward::primitive_desc
describeForward(const ConvolveFormats& formats, const Memory::desc& bias, const Windows& windows, bool relu) {
  return {engine(),
          dnnl::prop_kind::forward_training,
          dnnl::algorithm::convolution_direct,
          formats.in,
          formats.weight,
          bias,
          formats.out,
          windows.stride,
          windows.dilation,
          windows.before,
          windows.after,
          withRelu(relu)};
}

dnnl::convolution_backward_data::primitive_desc
describeInputGradient(const ConvolveFormats& formats, const Windows& windows,
                      const dnnl::convolution_forward::primitive_desc& forward) {
  return {engine(),         dnnl::algorithm::convolution_direct,
          formats.in,       formats.weight,
          formats.out,      windows.stride,
          windows.dilation, windows.before,
          windows.after,    forward,
          attributes()};
}

dnnl::convolution_backward_weights::primitive_desc
describeWeightGradient(const ConvolveFormats& formats, const Windows& windows,
                       const dnnl::convolution_forward::primitive_desc& forward) {
  return {engine(),         dnnl::algorithm::convolution_direct,
          formats.in,       formats.weight,
          formats.out,      windows.stride,
          windows.dilation, windows.before,
          windows.after,    forward,
          attributes()};
}

#endif

namespace {

/// The scratch of all primitives, as large as any needs: they run one after another.
Memory& sharedScratch() {
  static Memory scratch;
  return scratch;
}

void reserveScratch(std::size_t bytes) {
  Memory& scratch = sharedScratch();
  if (scratch && scratch.get_desc().get_size() >= bytes) return;
  const Memory::dims size{static_cast<Memory::dim>(bytes)};
  scratch = Memory(Memory::desc(size, Type::u8, Memory::format_tag::a), engine());
}

dnnl::stream& stream() {
  static dnnl::stream own(engine());
  return own;
}

} // namespace

Step::Step(dnnl::primitive primitive, const Memory::desc& scratch, const std::vector<Operand>& operands)
    : _primitive(std::move(primitive)), _has_scratch(scratch.get_size() > 0) {
  for (const auto& [argument, format] : operands) add(argument, format);
  if (!_has_scratch) return;
  reserveScratch(scratch.get_size());
  add(DNNL_ARG_SCRATCHPAD, scratch);
}

void Step::add(int argument, const Memory::desc& format) {
  _operands.emplace_back(format, engine(), nullptr);
  _arguments.push_back({argument, _operands.back().get()});
}

/// The C interface takes a list; that of C++ makes one in each call.
void Step::run(std::initializer_list<Address> addresses) {
  for (const auto& [argument, address] : addresses) {
    for (std::size_t i = 0; i < _arguments.size(); ++i)
      if (_arguments[i].arg == argument) _operands[i].set_data_handle(const_cast<void*>(address));
  }
  if (_has_scratch) _operands.back().set_data_handle(sharedScratch().get_data_handle());
  dnnl::error::wrap_c_api(dnnl_primitive_execute(_primitive.get(), stream().get(),
                                                 static_cast<int>(_arguments.size()), _arguments.data()),
                          "oneDNN could not run a primitive");
  stream().wait();
}

Step productStep(const Memory::desc& a, const Memory::desc& b, const Memory::desc& bias,
                 const Memory::desc& c, const dnnl::post_ops& operations) {
  dnnl::primitive_attr how = attributes();
  how.set_post_ops(operations);
  const dnnl::matmul::primitive_desc described = describeProduct(a, b, bias, c, how);
  std::vector<Step::Operand> operands{{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}};
  if (!bias.is_zero()) operands.emplace_back(DNNL_ARG_BIAS, bias);
  return {dnnl::matmul(described), described.scratchpad_desc(), operands};
}

Step reorderStep(const Memory::desc& from, const Memory::desc& to, bool add) {
  dnnl::primitive_attr how = attributes();
  if (add) {
    dnnl::post_ops operations;
    operations.append_sum(1.0F);
    how.set_post_ops(operations);
  }
  const dnnl::reorder::primitive_desc described(engine(), from, engine(), to, how);
  return {dnnl::reorder(described), described.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

void runReorder(Step& step, const void* from, void* to) {
  step.run({{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

} // namespace partita::onednn

#endif
