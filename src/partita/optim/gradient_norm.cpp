#include "partita/optim/gradient_norm.hpp"

#include "partita/core/math.hpp"
#include "partita/core/region.hpp"
#include "partita/core/rows.hpp"

#include <algorithm>

namespace partita {

namespace {

/// Sums of squares of chunks of tensors. In double, because squares of bf16 and float values exceed the range
/// of float.
template <class Stored>
struct ChunkSquares {
  const Stored* values;
  const GradientNorm::Part* chunks;
  double* squares;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t chunk, const Row& row) const {
    const Stored* own = values + chunks[chunk].offset;
    const double sum = row.sumOf(own, chunks[chunk].size, [=](Real gradient, std::int64_t) {
      const auto value = static_cast<double>(gradient);
      return value * value;
    });
    double* result = squares + chunk;
    row.once([=]() { *result = sum; });
  }
};

/// Sums of squares of tensors, from those of their chunks.
struct TensorSquares {
  const GradientNorm::Part* tensors;
  double* squares; ///< of tensors, then of chunks
  KernelFactor scale;

  template <class Row>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t tensor, const Row& row) const {
    const double* own = squares + tensors[tensor].offset;
    const double sum = row.sumStrided(tensors[tensor].size, [=](std::int64_t i) { return own[i]; });
    const auto factor = static_cast<double>(scale.value());
    double* result = squares + tensor;
    row.once([=]() { *result = sum * factor * factor; });
  }
};

/// One thread adds up the tensors in their order, as hosts do: the factor has the same bits wherever the
/// squares were added.
struct Clip {
  const double* squares;
  std::int64_t tensors;
  double given; ///< sum of the squares; negative: that of these tensors
  double most;
  KernelFactor scale;
  Real* factor;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t) const {
    double sum = given < 0.0 ? 0.0 : given;
    if (given < 0.0)
      for (std::int64_t t = 0; t < tensors; ++t) sum += squares[t];
    const double norm = sqrt(sum);
    *factor = static_cast<Real>((norm > most ? most / norm : 1.0) * scale.value());
  }
};

constexpr std::int64_t chunk_size = 16384; // values

/// What `_parts` of the tensors is; the numbers of chunks count from the first tensor.
std::vector<GradientNorm::Part> chunksOf(const std::vector<GradientNorm::Part>& tensors) {
  std::vector<GradientNorm::Part> parts(tensors.size());
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    parts[t].offset = static_cast<std::int64_t>(parts.size());
    for (std::int64_t done = 0; done < tensors[t].size; done += chunk_size)
      parts.push_back({tensors[t].offset + done, std::min(chunk_size, tensors[t].size - done)});
    parts[t].size = static_cast<std::int64_t>(parts.size()) - parts[t].offset;
  }
  return parts;
}

} // namespace

GradientNorm::GradientNorm(const std::vector<Part>& tensors)
    : _tensors(static_cast<std::int64_t>(tensors.size())),
      _host("partita::GradientNorm::host", tensors.size()), _factor("partita::GradientNorm::factor", 1) {
  const std::vector<Part> parts = chunksOf(tensors);
  _parts = Kokkos::View<Part*, MemSpace>("partita::GradientNorm::parts", parts.size());
  _squares = Kokkos::View<double*, MemSpace>("partita::GradientNorm::squares", parts.size());
  Kokkos::deep_copy(
      _parts, Kokkos::View<const Part*, HostSpace, Kokkos::MemoryUnmanaged>(parts.data(), parts.size()));
}

void GradientNorm::measure(const ExecSpace& space, const TypedSpan& gradients,
                           const DeviceFactor& inverse_scale) {
  const Region region(space, "partita::GradientNorm::measure", Phase::optimiser);
  _inverse_scale = inverse_scale;
  const std::int64_t chunks = static_cast<std::int64_t>(_parts.extent(0)) - _tensors;
  withStored(gradients.precision, [&](auto stored) {
    using Stored = decltype(stored);
    forEachRow(space, "partita::GradientNorm::chunks_kernel", chunks, chunk_size,
               ChunkSquares<Stored>{static_cast<const Stored*>(gradients.data), _parts.data() + _tensors,
                                    _squares.data() + _tensors});
  });
  // How a tensor is added up must not depend on what else this rank has.
  forEachRow(space, "partita::GradientNorm::tensors_kernel", _tensors, chunk_size,
             TensorSquares{_parts.data(), _squares.data(), _inverse_scale.inKernel()});
}

void GradientNorm::clip(const ExecSpace& space, double clip_norm, std::optional<double> squares) {
  const Region region(space, "partita::GradientNorm::clip", Phase::optimiser);
  Kokkos::parallel_for("partita::GradientNorm::clip_kernel", Range(space, 0, 1),
                       Clip{_squares.data(), _tensors, squares.value_or(-1.0), clip_norm,
                            _inverse_scale.inKernel(), _factor.data()});
}

std::vector<double> GradientNorm::squares(const ExecSpace& space) const {
  Kokkos::deep_copy(space, _host, Kokkos::subview(_squares, std::make_pair(std::int64_t{0}, _tensors)));
  fence(space, "partita::GradientNorm::squares");
  return {_host.data(), _host.data() + _host.extent(0)};
}

double GradientNorm::squaredNorm(const ExecSpace& space) const {
  double sum = 0.0;
  for (const double square : squares(space)) sum += square;
  return sum;
}

} // namespace partita
