#include "partita/optim/gradient_norm.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/math.hpp"
#include "partita/core/region.hpp"

namespace partita {

namespace {

/// Sum of squares of a run of values; several partial sums let the host compiler vectorise. In double,
/// because squares of bf16 and float values exceed the range of float.
template <class Stored>
struct SquareSum {
  static constexpr std::int64_t run = device_is_host ? 4096 : 64;
  static constexpr int lanes = device_is_host ? 16 : 1;
  const Stored* values;
  std::int64_t size;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, double& sum) const {
    const std::int64_t begin = item * run, end = begin + run < size ? begin + run : size;
    double partial[lanes] = {};
    std::int64_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      for (int lane = 0; lane < lanes; ++lane) partial[lane] += square(i + lane);
    }
    for (; i < end; ++i) partial[0] += square(i);
    for (const double part : partial) sum += part;
  }
  KOKKOS_INLINE_FUNCTION double square(std::int64_t i) const {
    const auto value = static_cast<double>(toReal(values[i]));
    return value * value;
  }
};

} // namespace

GradientNorm::GradientNorm(std::vector<Part> tensors)
    : _tensors(std::move(tensors)), _squares("partita::GradientNorm::squares", _tensors.size()),
      _host("partita::GradientNorm::host", _tensors.size()), _factor("partita::GradientNorm::factor", 1) {}

void GradientNorm::measure(const ExecSpace& space, const TypedSpan& gradients, double scale) {
  const Region region(space, "partita::GradientNorm::measure", Phase::optimiser);
  _scale = scale;
  withStored(gradients.precision, [&](auto stored) {
    using Sum = SquareSum<decltype(stored)>;
    const auto* values = static_cast<const decltype(stored)*>(gradients.data);
    for (std::size_t t = 0; t < _tensors.size(); ++t) {
      const std::int64_t size = _tensors[t].size, items = (size + Sum::run - 1) / Sum::run;
      const Kokkos::View<double, MemSpace> square(_squares.data() + t);
      Kokkos::parallel_reduce("partita::GradientNorm::measure_kernel", Range(space, 0, items),
                              Sum{values + _tensors[t].offset, size}, square);
    }
  });
}

void GradientNorm::clip(const ExecSpace& space, double clip_norm, std::optional<double> squares) {
  const Region region(space, "partita::GradientNorm::clip", Phase::optimiser);
  const auto own = _squares;
  const auto factor = _factor;
  const double given = squares.value_or(-1.0), inverse = 1.0 / _scale;
  Kokkos::parallel_for(
      "partita::GradientNorm::clip_kernel", Range(space, 0, 1), KOKKOS_LAMBDA(std::int64_t) {
        double sum = given;
        if (sum < 0.0) {
          sum = 0.0;
          for (std::size_t t = 0; t < own.extent(0); ++t) sum += own(t) * inverse * inverse;
        }
        const double norm = sqrt(sum);
        factor(0) = static_cast<Real>((norm > clip_norm ? clip_norm / norm : 1.0) * inverse);
      });
}

std::vector<double> GradientNorm::squares(const ExecSpace& space) const {
  Kokkos::deep_copy(space, _host, _squares);
  fence(space, "partita::GradientNorm::squares");
  std::vector<double> squares(_host.data(), _host.data() + _host.extent(0));
  for (double& square : squares) square = square / _scale / _scale;
  return squares;
}

double GradientNorm::squaredNorm(const ExecSpace& space) const {
  double sum = 0.0;
  for (const double square : squares(space)) sum += square;
  return sum;
}

} // namespace partita
