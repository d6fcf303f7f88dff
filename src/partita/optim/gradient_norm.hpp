#pragma once

#include "partita/core/typed_span.hpp"

#include <optional>
#include <vector>

namespace partita {

/// Global norm of a flat gradient and the factor that clips it (Pascanu et al., arXiv 1211.5063), without
/// waiting for the device. Sums are made a tensor at a time, so that they do not depend on where the network
/// is cut.
class GradientNorm {
 public:
  struct Part {
    std::int64_t offset, size; ///< of a tensor, in values
  };
  explicit GradientNorm(std::vector<Part> tensors);

  /// Of gradients that are `scale` times too large.
  void measure(const ExecSpace& space, const TypedSpan& gradients, double scale = 1.0);
  /// min(1, clip / norm) / scale into `factor()`, for the optimiser; the norm is the root of `squares`, of
  /// tensors elsewhere too, or of what was measured here.
  void clip(const ExecSpace& space, double clip_norm, std::optional<double> squares = std::nullopt);
  const Vector& factor() const { return _factor; }
  /// Squared norm of what was measured last; waits for the device.
  double squaredNorm(const ExecSpace& space) const;
  std::vector<double> squares(const ExecSpace& space) const; ///< the same tensor by tensor

 private:
  std::vector<Part> _tensors;
  Kokkos::View<double*, MemSpace> _squares; ///< a tensor
  Kokkos::View<double*, PinnedSpace> _host;
  Vector _factor;
  double _scale = 1.0;
};

} // namespace partita
