#pragma once

#include "partita/config/run_config.hpp"
#include "partita/core/half.hpp"
#include "partita/core/types.hpp"

namespace partita {

/// A run of numbers in one of the precisions, somewhere the device can read and write; owns nothing.
struct Numbers {
  Precision precision = Precision::single;
  void* data = nullptr;
  std::int64_t size = 0;

  Numbers() = default;
  Numbers(Precision its_precision, void* its_data, std::int64_t its_size)
      : precision(its_precision), data(its_data), size(its_size) {}
  Numbers(const Vector& values)
      : Numbers(Precision::single, values.data(), static_cast<std::int64_t>(values.size())) {}
  Numbers(const Matrix& values)
      : Numbers(Precision::single, values.data(), static_cast<std::int64_t>(values.size())) {}

  Numbers part(std::int64_t begin, std::int64_t end) const;
  std::int64_t bytes() const;
};

/// Bytes of one number.
constexpr std::int64_t bytesOf(Precision precision) {
  return precision == Precision::single ? static_cast<std::int64_t>(sizeof(Real)) : 2;
}

inline std::int64_t Numbers::bytes() const {
  return size * bytesOf(precision);
}

inline Numbers Numbers::part(std::int64_t begin, std::int64_t end) const {
  return {precision, static_cast<char*>(data) + begin * bytesOf(precision), end - begin};
}

/// What numbers of a type are in arithmetic, and the way back.
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

/// body(Stored{}) with the type in which numbers of a precision are stored.
template <class Body>
void withStored(Precision precision, const Body& body) {
  switch (precision) {
  case Precision::single:
    return body(Real{});
  case Precision::bf16:
    return body(BFloat16{});
  case Precision::fp16:
    return body(Float16{});
  }
}

/// to = factor * from, rounded; the two may be of any precision, and of one length.
void convert(const ExecSpace& space, const Numbers& from, const Numbers& to, Real factor = Real(1));

/// Rounds values to what a precision can hold; nothing in single precision.
void roundTo(const ExecSpace& space, Precision precision, const Matrix& values);

} // namespace partita
