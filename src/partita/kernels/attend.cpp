#include "partita/kernels/attend.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/kernels/attend_teams.hpp"
#include "partita/kernels/attend_tiles.hpp"
#include "partita/kernels/cudnn_attend.hpp"
#include "partita/kernels/onednn_attend.hpp"
#include "partita/kernels/onednn_products.hpp"
#include "partita/plan/layer_plan.hpp"

#include <type_traits>

namespace partita {

namespace {

/// What the portable kernels take: values of `Real`, which are those of the caller or copies in scratch.
struct RealValues {
  AttentionShape shape;
  Matrix qkv, out;
  Real* log_sums;
  Real* rest; ///< of the scratch, for a number per row of scores

  RealValues(const AttentionValues& values, Real* scratch)
      : shape(values.shape), log_sums(values.log_sums), rest(scratch) {
    if (!values.qkv.half()) {
      qkv = values.qkv.real();
      out = values.out.real();
      return;
    }
    qkv = Matrix(scratch, shape.places(), 3 * shape.width);
    out = Matrix(qkv.data() + qkv.size(), shape.places(), shape.width);
    rest = out.data() + out.size();
  }
};

/// Calls `body` with a compile-time bound on the width of a head.
template <class Body>
void withBound(std::int64_t width, const Body& body) {
  static_assert(widest_head == 256);
  if (width <= 64) return body(std::integral_constant<int, 64>());
  if (width <= 128) return body(std::integral_constant<int, 128>());
  body(std::integral_constant<int, 256>());
}

template <int Bound>
void attendWithin(const ExecSpace& space, const RealValues& values) {
  const AttentionShape& shape = values.shape;
  if constexpr (row_teams) {
    using Kernel = attention_teams::Forward<Bound>;
    Kokkos::parallel_for("partita::attend_kernel", attention_teams::teams<Kernel, Bound>(space, shape),
                         Kernel{shape, values.qkv.data(), values.out.data(), values.log_sums});
  } else {
    Kokkos::parallel_for(
        "partita::attend_kernel", Range(space, 0, shape.samples * shape.heads),
        AttentionForward<Bound>{shape, values.qkv.data(), values.out.data(), values.log_sums, values.rest});
  }
}

template <int Bound>
void attendBackWithin(const ExecSpace& space, const RealValues& values, const Matrix& grad_out,
                      const Matrix& grad_qkv) {
  const AttentionShape& shape = values.shape;
  const Real* const along = values.rest;
  if constexpr (row_teams) {
    using Queries = attention_teams::Backward<true, Bound>;
    using Keys = attention_teams::Backward<false, Bound>;
    const Team teams = attention_teams::teams<Queries, Bound>(space, shape);
    Kokkos::parallel_for(
        "partita::attend_back_queries_kernel", teams,
        Queries{shape, values.qkv.data(), values.log_sums, grad_out.data(), along, grad_qkv.data()});
    Kokkos::parallel_for(
        "partita::attend_back_keys_kernel", teams,
        Keys{shape, values.qkv.data(), values.log_sums, grad_out.data(), along, grad_qkv.data()});
  } else {
    Kokkos::parallel_for("partita::attend_back_kernel", Range(space, 0, shape.samples * shape.heads),
                         AttentionBackward<Bound>{shape, values.qkv.data(), values.log_sums, grad_out.data(),
                                                  along, grad_qkv.data()});
  }
}

} // namespace

AttentionGradients gradientsIn(Real* memory, const AttentionValues& values) {
  const AttentionShape& shape = values.shape;
  const bool half = cudnn::attends(values, true) || onednn::attends(shape, values.qkv.precision);
  Real* const begin = values.qkv.half() ? alignedIn(memory) : memory;
  const TypedMatrix all(half ? values.qkv.precision : Precision::single, begin, 4 * shape.places(),
                        shape.width);
  return {all.rowsFrom(0, 3 * shape.places()).inRowsOf(3 * shape.width),
          all.rowsFrom(3 * shape.places(), shape.places()),
          begin + roomOf(4 * shape.places() * shape.width, all.precision)};
}

void attend(const ExecSpace& space, const AttentionValues& values, Real* scratch) {
  const Region region(space, "partita::attend", Phase::elementwise);
  if (cudnn::attends(values, false)) return cudnn::attend(space, values, scratch);
  if (onednn::attends(values.shape, values.qkv.precision)) return onednn::attend(space, values, scratch);
  const RealValues real(values, scratch);
  if (values.qkv.half()) convert(space, values.qkv.values(), real.qkv);
  withBound(values.shape.headWidth(), [&](auto bound) { attendWithin<decltype(bound)::value>(space, real); });
  if (values.out.half()) convert(space, real.out, values.out.values());
}

void attendBack(const ExecSpace& space, const AttentionValues& values, const AttentionGradients& gradients) {
  const Region region(space, "partita::attend_back", Phase::elementwise);
  if (gradients.qkv.half() && onednn::attends(values.shape, values.qkv.precision))
    return onednn::attendBack(space, values, gradients);
  if (gradients.qkv.half()) return cudnn::attendBack(space, values, gradients);
  const RealValues real(values, gradients.scratch);
  if (values.qkv.half()) {
    convert(space, values.qkv.values(), real.qkv);
    convert(space, values.out.values(), real.out);
  }
  const AttentionShape& shape = values.shape;
  const Matrix grad_out = gradients.out.real();
  forEachRun(space, "partita::attend_along_kernel", shape.samples * shape.heads, shape.positions,
             AttentionAlong<Real>{shape, real.out.data(), grad_out.data(), real.rest});
  withBound(shape.headWidth(), [&](auto bound) {
    attendBackWithin<decltype(bound)::value>(space, real, grad_out, gradients.qkv.real());
  });
}

std::string attentionPath() {
  if (const std::string version = cudnn::attentionVersion(); !version.empty()) return "cuDNN " + version;
  if (onednn::multiplies(Precision::bf16) && !row_teams) return "oneDNN " + onednn::version();
  return "Kokkos kernels in float";
}

} // namespace partita
