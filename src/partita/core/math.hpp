#pragma once

#include <Kokkos_Macros.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace partita {

/// The overloads for float and double, in both host and device code: the global C functions would silently
/// compute in double.
using std::cos;
using std::erfc;
using std::exp;
using std::log;
using std::sqrt;
using std::tanh;

/// exp for softmax and activations. Host compilers do not vectorise calls of the C library's exp, which makes
/// them as expensive as a small matrix product; they do vectorise this one. Relative error below 2e-7; 0
/// below -87, on hosts exp(88) above 88. Devices have an instruction for it, whose error grows with |x| to
/// 8e-6 at -87.
KOKKOS_INLINE_FUNCTION float rowExp(float x) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  return __expf(x);
#else
  // exp(x) = 2^n exp(r), |r| <= ln(2)/2. ln(2) is split into two parts to make r exact; exp(r) is a Taylor
  // polynomial.
  const float in_range = x < -87.0F ? -87.0F : x > 88.0F ? 88.0F : x;
  const float n = std::floor(in_range * 1.44269504F + 0.5F);
  const float r = (in_range - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.0F / 5040.0F;
  p = p * r + 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  // If x is NaN, so is p, whatever the power.
  const std::int32_t bits = ((n == n ? static_cast<std::int32_t>(n) : 0) + 127) << 23;
  float power = 0.0F;
  std::memcpy(&power, &bits, sizeof power);
  return x < -87.0F ? 0.0F : p * power;
#endif
}
KOKKOS_INLINE_FUNCTION double rowExp(double x) {
  return exp(x);
}

/// tanh for activations, which host compilers vectorise: near 0 a polynomial (Moshier, Cephes, tanhf), beyond
/// it 1 - 2 / (exp(2 |x|) + 1). Relative error below 3e-7.
KOKKOS_INLINE_FUNCTION float rowTanh(float x) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  return tanh(x);
#else
  const float s = x * x;
  float p = -5.70498872745e-3F;
  p = p * s + 2.06390887954e-2F;
  p = p * s - 5.37397155531e-2F;
  p = p * s + 1.33314422036e-1F;
  p = p * s - 3.33332819422e-1F;
  const float near = p * s * x + x;
  const float size = x < 0.0F ? -x : x, far = 1.0F - 2.0F / (rowExp(2.0F * size) + 1.0F);
  return size < 0.625F ? near : x < 0.0F ? -far : far;
#endif
}
KOKKOS_INLINE_FUNCTION double rowTanh(double x) {
  return tanh(x);
}

/// Probability that a standard normal number is below z, given e = exp(-z^2 / 2), which the derivative needs
/// too. The float version uses a rational approximation that host compilers vectorise (Abramowitz and Stegun,
/// 7.1.26); error below 3e-7.
KOKKOS_INLINE_FUNCTION float normalCdf(float z, float e) {
  const float below = 1.0F + 0.3275911F * 0.70710678F * (z < 0.0F ? -z : z);
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  const float t = __fdividef(1.0F, below);
#else
  const float t = 1.0F / below;
#endif
  float p = 1.061405429F;
  p = p * t - 1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t - 0.284496736F;
  p = p * t + 0.254829592F;
  const float tail = 0.5F * p * t * e;
  return z < 0.0F ? tail : 1.0F - tail;
}
KOKKOS_INLINE_FUNCTION double normalCdf(double z, double) {
  return 0.5 * erfc(-z * 0.70710678118654752);
}

} // namespace partita
