#include "partita/io/value_check.hpp"

#include "partita/core/finite.hpp"

#include <zlib.h>

#include <algorithm>
#include <utility>

namespace partita {

namespace {

// Polynomials of degree 31 or less modulo that of CRC-32, with the coefficient of x^0 in the highest bit.
constexpr std::uint32_t modulus = 0xEDB88320U, one = 0x80000000U, x_to_8 = 0x00800000U;

std::uint32_t product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sum = 0;
  for (std::uint32_t bit = one; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) sum ^= b;
    b = (b >> 1) ^ ((b & 1U) != 0 ? modulus : 0U);
  }
  return sum;
}

/// The factor by which `zeros` zero bytes multiply the register.
std::uint32_t factorOf(std::int64_t zeros) {
  std::uint32_t power = one, square = x_to_8;
  for (; zeros > 0; zeros >>= 1) {
    if ((zeros & 1) != 0) power = product(power, square);
    square = product(square, square);
  }
  return power;
}

constexpr std::int64_t value_bytes = sizeof(Real);

} // namespace

void PartChecksum::add(std::int64_t place, const void* data, std::int64_t count) {
  if (place == 0) {
    _first = true;
    _register = 0xFFFFFFFFU;
  } else if (place > _done) {
    if (std::exchange(_gap, place - _done) != place - _done) _gap_factor = factorOf(_gap);
    _register = product(_register, _gap_factor);
  }
  _register =
      ~static_cast<std::uint32_t>(crc32_z(~_register, static_cast<const unsigned char*>(data), count));
  _done = place + count;
}

std::uint32_t PartChecksum::value() const {
  const std::uint32_t end = product(_register, factorOf(_bytes - _done));
  return _first ? ~end : end;
}

ValueCheck::ValueCheck(const TensorSlice& slice)
    : _runs(runsOf(slice)), _checksum(wholeOf(slice.whole).size() * value_bytes) {}

void ValueCheck::add(const Real* values, std::int64_t count) {
  const Real* const end = values + count;
  _finite = _finite && allFinite(values, count);
  while (values < end) {
    const SliceRun& run = _runs[_run];
    const std::int64_t done = _next - run.in_slice,
                       now = std::min<std::int64_t>(run.count - done, end - values);
    _checksum.add((run.in_whole + done) * value_bytes, values, now * value_bytes);
    values += now;
    _next += now;
    if (done + now == run.count) ++_run;
  }
}

} // namespace partita
