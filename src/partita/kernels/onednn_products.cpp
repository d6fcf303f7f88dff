#include "partita/kernels/onednn_products.hpp"

#if defined(PARTITA_HAVE_ONEDNN) && !defined(PARTITA_DOUBLE)

#include "partita/core/provenance.hpp"
#include "partita/kernels/onednn.hpp"

#include <algorithm>
#include <tuple>

namespace partita::onednn {

namespace {

/// What a product depends on besides the addresses.
struct ProductKey {
  std::int64_t rows, columns, depth, a_stride, b_stride, c_stride;
  int types; ///< of operands and result, whether they are transposed, and the epilogue
  float alpha, beta;

  bool operator<(const ProductKey& other) const { return asTuple() < other.asTuple(); }

 private:
  std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, int, float,
             float>
  asTuple() const {
    return {rows, columns, depth, a_stride, b_stride, c_stride, types, alpha, beta};
  }
};

/// The shape of op(matrix).
Memory::desc describe(const TypedMatrix& matrix, Op op) {
  const Memory::dims size{matrix.rows, matrix.columns}, strides{matrix.stride, 1};
  if (op == Op::none) return {size, typeOf(matrix.precision), strides};
  return {{size[1], size[0]}, typeOf(matrix.precision), Memory::dims{strides[1], strides[0]}};
}

/// Would the library's call, half a microsecond, and its preparations take longer than it saves? Products
/// with a vector are bound by memory, and slower than those of a BLAS.
bool tooSmall(const ProductKey& key) {
  constexpr std::int64_t least_side = 8, least_volume = std::int64_t{1} << 16;
  return std::min(key.rows, key.columns) < least_side || key.rows * key.columns * key.depth < least_volume;
}

} // namespace

std::string version() {
  const dnnl_version_t* version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

std::int64_t compiledShapes() {
  const std::lock_guard<std::mutex> lock(mutex());
  return compiled_count;
}

bool multiplies(Precision precision) {
  static const bool single = supports(dnnl::cpu_isa::avx512_core),
                    bf16 = supports(dnnl::cpu_isa::avx512_core_bf16) && multipliesBf16Fast();
#if DNNL_VERSION_MAJOR >= 3
  static const bool fp16 = supports(dnnl::cpu_isa::avx512_core_fp16);
#else
  constexpr bool fp16 = false;
#endif
  switch (precision) {
  case Precision::single:
    return single;
  case Precision::bf16:
    return bf16;
  case Precision::fp16:
    return fp16;
  }
  return false;
}

bool product(const ExecSpace& space, Op op_a, Op op_b, Real alpha, const TypedMatrix& a, const TypedMatrix& b,
             Real beta, const TypedMatrix& c, const ProductEpilogue& epilogue) {
  if (!multiplies(a.precision) || a.rows * a.columns == 0 || b.rows * b.columns == 0) return false;
  const bool biased = epilogue.bias != nullptr;
  const ProductKey key{c.rows,
                       c.columns,
                       op_a == Op::none ? a.columns : a.rows,
                       a.stride,
                       b.stride,
                       c.stride,
                       static_cast<int>(a.precision) * 64 + static_cast<int>(c.precision) * 16 +
                           (epilogue.relu ? 8 : 0) + (biased ? 4 : 0) + (op_a == Op::transpose ? 2 : 0) +
                           (op_b == Op::transpose ? 1 : 0),
                       alpha,
                       beta};
  if (a.precision == Precision::single && tooSmall(key)) return false;
  static CountedCache<ProductKey, Step> products(4096);
  fence(space, "partita::onednn::product"); // the library computes at once
  const std::lock_guard<std::mutex> lock(mutex());
  Step& step = products.get(key, [&] {
    dnnl::post_ops operations;
    if (alpha != 1.0F) appendFactor(operations, alpha);
    if (beta != 0.0F) operations.append_sum(beta);
    if (epilogue.relu) appendRelu(operations);
    const Memory::dims of_bias{1, c.columns}, strides{c.columns, 1};
    return productStep(describe(a, op_a), describe(b, op_b),
                       biased ? Memory::desc(of_bias, Type::f32, strides) : Memory::desc(),
                       describe(c, Op::none), operations);
  });
  step.run({{DNNL_ARG_SRC, a.data},
            {DNNL_ARG_WEIGHTS, b.data},
            {DNNL_ARG_BIAS, epilogue.bias},
            {DNNL_ARG_DST, c.data}});
  return true;
}

} // namespace partita::onednn

#else

namespace partita::onednn {

std::string version() {
  return "";
}

std::int64_t compiledShapes() {
  return 0;
}

bool multiplies(Precision) {
  return false;
}

bool product(const ExecSpace&, Op, Op, Real, const TypedMatrix&, const TypedMatrix&, Real, const TypedMatrix&,
             const ProductEpilogue&) {
  return false;
}

} // namespace partita::onednn

#endif
