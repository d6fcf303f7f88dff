#pragma once

#include "partita/core/types.hpp"

#include <type_traits>

namespace partita {

static_assert(device_is_host == std::is_same<MemSpace, HostSpace>::value,
              "in memory that both access, the host could read a factor before the device has written it");

/// A factor as a kernel holds it.
class KernelFactor {
 public:
  KernelFactor(Real number, const Real* device) : _number(number), _device(device) {}
  KOKKOS_INLINE_FUNCTION Real value() const {
    if constexpr (device_is_host) return _number;
    return _device == nullptr ? _number : _number * *_device;
  }

 private:
  Real _number;
  const Real* _device;
};

/// A factor for kernels: a number, or its product with a number on the device. Kernels read the
/// latter when they run, so the host never has to wait for it.
struct DeviceFactor {
  Real number = 1;
  const Real* device = nullptr; ///< null: 1

  DeviceFactor(Real its_number = 1, const Real* its_device = nullptr)
      : number(its_number), device(its_device) {}
  DeviceFactor operator*(Real more) const { return {number * more, device}; }
  DeviceFactor operator/(Real by) const { return {number / by, device}; }

  /// For a kernel that is launched now. Hosts run it at once, and loops with an optional load would not
  /// vectorise there.
  KernelFactor inKernel() const {
    if constexpr (!device_is_host) return {number, device};
    return {device == nullptr ? number : number * *device, nullptr};
  }
};

} // namespace partita
