#pragma once

#include "partita/core/device_factor.hpp"

#include <cstdint>
#include <functional>

namespace partita {

/// Combines the gradient of a stage with those of other ranks in each step. The backward pass hands it over
/// in parts, from the back of the flat buffer; the updater of the parameters requests the parts it needs. The
/// gradient is complete in place when `finish` returns.
class GradientExchange {
 public:
  /// Called with each range of values that is complete.
  using Arrived = std::function<void(std::int64_t begin, std::int64_t end)>;

  virtual ~GradientExchange() = default;

  /// May parts of the gradient still be in flight after the backward pass?
  virtual bool overlaps() const = 0;
  /// Sets the factor by which the gradient is too large because the loss is scaled, and its inverse.
  virtual void setScale(const DeviceFactor& scale, const DeviceFactor& inverse) = 0;
  /// To be called if the update is delayed into a forward pass and needs the gradient of this step from the
  /// front.
  virtual void wantFromFront(bool from_front) = 0;
  /// The values [begin, end) of this rank are final; ranges are contiguous and come from the back.
  virtual void ready(const ExecSpace& space, std::int64_t begin, std::int64_t end) = 0;
  /// Called after all ranges are ready: waits until [begin, end) is complete, and calls `arrived` for each
  /// range that became complete meanwhile. The next step may begin after the last range.
  virtual void arrive(const ExecSpace& space, std::int64_t begin, std::int64_t end,
                      const Arrived& arrived = {}) = 0;
  /// Waits for the whole gradient.
  virtual void finish(const ExecSpace& space) = 0;
};

/// The gradient of a stage that is not combined with any other: it is complete immediately.
class LocalGradient final : public GradientExchange {
 public:
  bool overlaps() const override { return false; }
  void setScale(const DeviceFactor&, const DeviceFactor&) override {}
  void wantFromFront(bool) override {}
  void ready(const ExecSpace&, std::int64_t, std::int64_t) override {}
  void arrive(const ExecSpace&, std::int64_t, std::int64_t, const Arrived&) override {}
  void finish(const ExecSpace&) override {}
};

} // namespace partita
