#pragma once

#include "partita/core/typed_span.hpp"

#include <optional>
#include <vector>

namespace partita {

/// Global norm of a flat gradient and the factor that clips it (Pascanu et al., arXiv 1211.5063), without
/// waiting for the device. Each tensor is summed separately, so that results do not depend on where the
/// network is cut.
class GradientNorm {
 public:
  struct Part {
    std::int64_t offset, size; ///< of a tensor, in values
  };
  explicit GradientNorm(const std::vector<Part>& tensors);

  /// Measures gradients after multiplication by `inverse_scale`.
  void measure(const ExecSpace& space, const TypedSpan& gradients, const DeviceFactor& inverse_scale = {});
  /// Writes inverse_scale min(1, clip / norm) to `factor()`, for the optimiser. The norm is the root of
  /// `squares`, which may include tensors of other ranks, or by default of what was measured here.
  void clip(const ExecSpace& space, double clip_norm, std::optional<double> squares = std::nullopt);
  const Vector& factor() const { return _factor; }
  /// Squares of the last measurement on the device, one per tensor.
  const double* deviceSquares() const { return _squares.data(); }
  std::int64_t tensors() const { return _tensors; }
  /// Squared norm of the last measurement; waits for the device.
  double squaredNorm(const ExecSpace& space) const;
  std::vector<double> squares(const ExecSpace& space) const; ///< the same per tensor

 private:
  std::int64_t _tensors;
  Kokkos::View<Part*, MemSpace>
      _parts; ///< the numbers of the chunks of each tensor; then these chunks, in values
  Kokkos::View<double*, MemSpace> _squares; ///< of the tensors, then of the chunks
  Kokkos::View<double*, PinnedSpace> _host;
  Vector _factor;
  DeviceFactor _inverse_scale;
};

} // namespace partita
