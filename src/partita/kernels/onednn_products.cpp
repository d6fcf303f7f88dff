#include "partita/kernels/onednn_products.hpp"

#if defined(PARTITA_HAVE_ONEDNN) && !defined(PARTITA_DOUBLE)

#include "partita/kernels/onednn.hpp"

#include <map>
#include <tuple>

namespace partita::onednn {

namespace {

/// What a product depends on besides the addresses.
struct ProductKey {
  std::int64_t rows, columns, depth, a_stride, b_stride, c_stride;
  int types; ///< of operands and result, and whether they are transposed
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

Step compile(const Memory::desc& a, const Memory::desc& b, const Memory::desc& c, float alpha, float beta) {
  dnnl::post_ops operations;
  if (alpha != 1.0F) appendFactor(operations, alpha);
  if (beta != 0.0F) operations.append_sum(beta);
  dnnl::primitive_attr how = attributes();
  how.set_post_ops(operations);
  const dnnl::matmul::primitive_desc described = describeProduct(a, b, c, how);
  return {dnnl::matmul(described),
          described.scratchpad_desc(),
          {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}}};
}

} // namespace

std::string version() {
  const dnnl_version_t* version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

bool multiplies(Precision precision) {
  static const bool bf16 = supports(dnnl::cpu_isa::avx512_core_bf16);
#if DNNL_VERSION_MAJOR >= 3
  static const bool fp16 = supports(dnnl::cpu_isa::avx512_core_fp16);
#else
  constexpr bool fp16 = false;
#endif
  return (precision == Precision::bf16 && bf16) || (precision == Precision::fp16 && fp16);
}

bool product(const ExecSpace& space, Op op_a, Op op_b, Real alpha, const TypedMatrix& a, const TypedMatrix& b,
             Real beta, const TypedMatrix& c) {
  if (!multiplies(a.precision) || a.rows * a.columns == 0 || b.rows * b.columns == 0) return false;
  const ProductKey key{c.rows,
                       c.columns,
                       op_a == Op::none ? a.columns : a.rows,
                       a.stride,
                       b.stride,
                       c.stride,
                       static_cast<int>(a.precision) * 16 + static_cast<int>(c.precision) * 4 +
                           (op_a == Op::transpose ? 2 : 0) + (op_b == Op::transpose ? 1 : 0),
                       alpha,
                       beta};
  static std::map<ProductKey, Step> products;
  fence(space, "partita::onednn::product"); // the library computes at once
  const std::lock_guard<std::mutex> lock(mutex());
  auto found = products.find(key);
  if (found == products.end())
    found =
        products
            .emplace(key, compile(describe(a, op_a), describe(b, op_b), describe(c, Op::none), alpha, beta))
            .first;
  found->second.run({{DNNL_ARG_SRC, a.data}, {DNNL_ARG_WEIGHTS, b.data}, {DNNL_ARG_DST, c.data}});
  return true;
}

} // namespace partita::onednn

#else

namespace partita::onednn {

std::string version() {
  return "";
}

bool multiplies(Precision) {
  return false;
}

bool product(const ExecSpace&, Op, Op, Real, const TypedMatrix&, const TypedMatrix&, Real,
             const TypedMatrix&) {
  return false;
}

} // namespace partita::onednn

#endif
