#pragma once

#include "partita/config/run_config.hpp"
#include "partita/core/device_factor.hpp"
#include "partita/core/error.hpp"
#include "partita/core/types.hpp"

#include <cstring>

#if defined(KOKKOS_ENABLE_CUDA)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace partita {

using std::memcpy; // host and device code alike

/// 16-bit floating-point types are used for storage and messages only; arithmetic is done in float. Rounding
/// is to nearest, ties to even; values that are too large become infinite, and NaN stays NaN.

/// bfloat16: the upper half of a float, 8 bits of precision, the range of a float.
struct BFloat16 {
  std::uint16_t bits;
};

/// IEEE 754 binary16: 11 bits of precision, up to 65504, in steps of 2^-24 below 2^-14.
struct Float16 {
  std::uint16_t bits;
};

namespace detail {

/// The following functions take one number or, with the same code, a vector of several. The bits of
/// a vector are unsigned 32-bit numbers.
template <class Bits = std::uint32_t, class Float>
KOKKOS_INLINE_FUNCTION Bits bitsOf(const Float& value) {
  static_assert(sizeof(Bits) == sizeof(Float), "floats have 32 bits each");
  Bits bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

template <class Float = float, class Bits>
KOKKOS_INLINE_FUNCTION Float floatOf(const Bits& bits) {
  static_assert(sizeof(Bits) == sizeof(Float), "floats have 32 bits each");
  Float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

constexpr std::uint32_t float_infinity = 0x7f800000U;

template <class Half>
constexpr bool is_bfloat16 = std::is_same<Half, BFloat16>::value;

/// The float whose 16-bit number has these bits, and the bits of the nearest 16-bit number.
template <class Half>
struct Format;

template <>
struct Format<BFloat16> {
  template <class Float, class Bits>
  KOKKOS_INLINE_FUNCTION static Float decode(const Bits& half) {
    return floatOf<Float>(half << 16);
  }
  template <class Bits, class Float>
  KOKKOS_INLINE_FUNCTION static Bits encode(const Float& value) {
    const Bits bits = bitsOf<Bits>(value), magnitude = bits & 0x7fffffffU;
    const Bits rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16, quiet = bits >> 16 | 0x40U;
    return magnitude > float_infinity ? quiet : rounded;
  }
};

template <>
struct Format<Float16> {
  template <class Float, class Bits>
  KOKKOS_INLINE_FUNCTION static Float decode(const Bits& half) {
    const Bits sign = (half & 0x8000U) << 16, moved = (half & 0x7fffU) << 13, exponent = moved & 0x0f800000U;
    // The exponent bias is 15 in binary16 and 127 in float. A subnormal number is its digits times the step
    // 2^-24, and can therefore be computed as the difference of two floats.
    const Bits normal = moved + 0x38000000U, special = moved + 0x70000000U;
    const Bits subnormal = bitsOf<Bits>(floatOf<Float>(moved + 0x38800000U) - 6.103515625e-05F);
    const Bits finite = exponent == 0U ? subnormal : normal;
    return floatOf<Float>(sign | (exponent == 0x0f800000U ? special : finite));
  }
  template <class Bits, class Float>
  KOKKOS_INLINE_FUNCTION static Bits encode(const Float& value) {
    const Bits bits = bitsOf<Bits>(value), magnitude = bits & 0x7fffffffU, sign = bits >> 16 & 0x8000U;
    // The last digit of 0.5F is 2^-24, so adding 0.5 rounds a small number correctly.
    const Bits subnormal = bitsOf<Bits>(floatOf<Float>(magnitude) + 0.5F) - 0x3f000000U;
    const Bits normal = (magnitude + 0xc8000fffU + (magnitude >> 13 & 1U)) >> 13;
    const Bits nan = Bits{} + 0x7e00U, infinity = Bits{} + 0x7c00U;
    const Bits special = magnitude > float_infinity ? nan : infinity;
    const Bits finite = magnitude < 0x38800000U ? subnormal : normal;
    return sign | (magnitude >= 0x47800000U ? special : finite);
  }
};

} // namespace detail

template <class Half>
KOKKOS_INLINE_FUNCTION float toFloat(Half value) {
  return detail::Format<Half>::template decode<float>(std::uint32_t{value.bits});
}

/// Rounds a float to a 16-bit type. NVIDIA GPUs have an instruction for it, whose result differs
/// only in the bits of NaN.
template <class Half>
KOKKOS_INLINE_FUNCTION Half toHalf(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (detail::is_bfloat16<Half>)
    return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
  else
    return {__half_as_ushort(__float2half_rn(value))};
#else
  return {static_cast<std::uint16_t>(detail::Format<Half>::template encode<std::uint32_t>(value))};
#endif
}

/// A contiguous range of numbers in one of the precisions, in memory that the device can read and write.
/// Non-owning.
struct TypedSpan {
  Precision precision = Precision::single;
  void* data = nullptr;
  std::int64_t size = 0;

  TypedSpan() = default;
  TypedSpan(Precision its_precision, void* its_data, std::int64_t its_size)
      : precision(its_precision), data(its_data), size(its_size) {}
  TypedSpan(const Vector& values) : TypedSpan(Precision::single, values.data(), values.size()) {}
  TypedSpan(const Matrix& values) : TypedSpan(Precision::single, values.data(), values.size()) {}

  TypedSpan part(std::int64_t begin, std::int64_t end) const;
  std::int64_t bytes() const;
};

/// Bytes of one number.
constexpr std::int64_t bytesOf(Precision precision) {
  return precision == Precision::single ? sizeof(Real) : 2;
}

inline std::int64_t TypedSpan::bytes() const {
  return size * bytesOf(precision);
}

inline TypedSpan TypedSpan::part(std::int64_t begin, std::int64_t end) const {
  return {precision, static_cast<char*>(data) + begin * bytesOf(precision), end - begin};
}

/// Conversion between a stored type and the type used in arithmetic.
KOKKOS_INLINE_FUNCTION Real toReal(Real value) {
  return value;
}
template <class Half>
KOKKOS_INLINE_FUNCTION Real toReal(Half value) {
  return static_cast<Real>(toFloat(value));
}
template <class Stored>
constexpr bool is_real = std::is_same<Stored, Real>::value;
template <class Stored>
KOKKOS_INLINE_FUNCTION Stored fromReal(Real value) {
  if constexpr (is_real<Stored>) {
    return value;
  } else {
    return toHalf<Stored>(static_cast<float>(value));
  }
}

/// Calls body(Stored{}) with the type that stores numbers of the given precision.
template <class Body>
void withStored(Precision precision, const Body& body) {
  switch (precision) {
  case Precision::single:
    return body(Real{});
#ifdef PARTITA_NO_HALF // a library for tests, which compiles in a third of the time without 16-bit numbers
  default:
    PARTITA_FAIL("16-bit numbers in a library without them");
#else
  case Precision::bf16:
    return body(BFloat16{});
  case Precision::fp16:
    return body(Float16{});
#endif
  }
}

/// to = factor * from, rounded. Both spans may have any precision and must have the same length.
void convert(const ExecSpace& space, const TypedSpan& from, const TypedSpan& to,
             const DeviceFactor& factor = {});

} // namespace partita
