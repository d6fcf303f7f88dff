#include "partita/core/typed_matrix.hpp"

#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::core_typed_span {

namespace {

constexpr DefaultSpace space;
constexpr float infinity = std::numeric_limits<float>::infinity();

/// The nearest number with `digits` binary digits whose smallest step is 2^`lowest`, ties to even; computed
/// from the definition, in double, where everything is exact.
double nearest(double value, int digits, int lowest, double largest) {
  if (value == 0.0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value) - (digits - 1), lowest);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
  return std::fabs(rounded) > largest ? std::copysign(static_cast<double>(infinity), value) : rounded;
}

template <class Half>
double expected(float value);
template <>
double expected<BFloat16>(float value) {
  return nearest(static_cast<double>(value), 8, -133, std::ldexp(255.0, 120));
}
template <>
double expected<Float16>(float value) {
  return nearest(static_cast<double>(value), 11, -24, 65504.0);
}

/// Numbers of all magnitudes, and the points where rounding changes direction.
std::vector<float> trials() {
  std::vector<float> values{0.0F,           -0.0F,          infinity,       -infinity,
                            65504.0F,       65519.99F,      65520.0F,       65536.0F,
                            5.9604645e-08F, 2.9802322e-08F, 2.9802326e-08F, 8.940697e-08F,
                            6.1035156e-05F, 6.1005354e-05F, 3.4e38F,        1e-45F};
  const Values normal = normals(4000, 5), sizes = normals(4000, 6);
  for (std::size_t i = 0; i < normal.size(); ++i)
    values.push_back(static_cast<float>(normal[i] * std::pow(2.0, 12.0 * sizes[i])));
  return values;
}

template <class Half>
void checkRounding() {
  for (const float value : trials()) {
    const double found = static_cast<double>(toFloat(toHalf<Half>(value)));
    INFO(value);
    CHECK(found == expected<Half>(value));
    CHECK(std::signbit(found) == std::signbit(value));
  }
  CHECK(std::isnan(toFloat(toHalf<Half>(std::numeric_limits<float>::quiet_NaN()))));
  // Each 16-bit number rounds to itself, and the midpoint between it and the next rounds to the even one.
  for (std::uint32_t bits = 0; bits < 0x7c00U; ++bits) {
    const Half low{static_cast<std::uint16_t>(bits)}, high{static_cast<std::uint16_t>(bits + 1)};
    const float a = toFloat(low), b = toFloat(high);
    if (toHalf<Half>(a).bits != bits) FAIL(bits);
    const float between = static_cast<float>(0.5 * (static_cast<double>(a) + static_cast<double>(b)));
    if (!std::isfinite(b)) continue;
    if (toHalf<Half>(between).bits != bits + (bits & 1U)) FAIL(bits);
    if (toHalf<Half>(-between).bits != (0x8000U | (bits + (bits & 1U)))) FAIL(bits);
  }
}

/// The value of a 16-bit number by the definition of its format.
double valueOf(std::uint32_t bits, int digits_stored, int bias) {
  const std::uint32_t one = 1U << digits_stored, digits = bits & (one - 1),
                      largest = 0x7fffU >> digits_stored, exponent = (bits & 0x7fffU) >> digits_stored;
  double value = std::ldexp(static_cast<double>(exponent == 0 ? digits : digits + one),
                            static_cast<int>(std::max(exponent, 1U)) - bias - digits_stored);
  if (exponent == largest)
    value = digits == 0 ? static_cast<double>(infinity) : std::numeric_limits<double>::quiet_NaN();
  return std::copysign(value, (bits & 0x8000U) != 0 ? -1.0 : 1.0);
}

/// Devices do not keep the sign of NaN.
bool same(double a, double b) {
  if (!device_is_host && std::isnan(a) && std::isnan(b)) return true;
  return (a == b || (std::isnan(a) && std::isnan(b))) && std::signbit(a) == std::signbit(b);
}

/// All 16-bit numbers in one array, so that loops process several at a time.
Values allOf(Precision precision) {
  const Kokkos::View<std::uint16_t*, MemSpace> halves("partita::test::halves", 65536);
  const auto host = Kokkos::create_mirror_view(halves);
  for (std::size_t i = 0; i < host.size(); ++i) host(i) = static_cast<std::uint16_t>(i);
  Kokkos::deep_copy(halves, host);
  const Vector values("partita::test::values", host.size());
  convert(space, TypedSpan(precision, halves.data(), 65536), values);
  return valuesOf(values);
}

/// Rounds a million floats, spread evenly over all floats, in one array.
template <class Half>
void checkRun(Precision precision) {
  std::vector<float> floats;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 4099)
    floats.push_back(detail::floatOf(static_cast<std::uint32_t>(bits)));
  const Vector values = vectorOf(Values(floats.begin(), floats.end()));
  const Kokkos::View<std::uint16_t*, MemSpace> memory("partita::test::memory", floats.size());
  const TypedSpan halves(precision, memory.data(), static_cast<std::int64_t>(floats.size()));
  convert(space, values, halves);
  convert(space, halves, values);
  const Values found = valuesOf(values);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    if (!same(found[i], std::isnan(floats[i]) ? static_cast<double>(floats[i]) : expected<Half>(floats[i])))
      FAIL(floats[i] << " became " << found[i]);
  }
}

} // namespace

TEST_CASE("Every number of 16 bits is what its format says", "[half]") {
  const Values bf16 = allOf(Precision::bf16), fp16 = allOf(Precision::fp16);
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    if (!same(bf16[bits], valueOf(bits, 7, 127))) FAIL("bf16 " << bits << " is " << bf16[bits]);
    if (!same(fp16[bits], valueOf(bits, 10, 15))) FAIL("fp16 " << bits << " is " << fp16[bits]);
  }
}

TEST_CASE("Floats of all sizes are rounded in runs as they are one by one", "[half]") {
  checkRun<BFloat16>(Precision::bf16);
  checkRun<Float16>(Precision::fp16);
}

TEST_CASE("Bfloat16 rounds to the nearest even", "[half]") {
  checkRounding<BFloat16>();
}

TEST_CASE("Binary16 rounds to the nearest even, subnormal numbers too", "[half]") {
  checkRounding<Float16>();
}

TEST_CASE("Runs of numbers are converted both ways, odd lengths too", "[half]") {
  for (const std::int64_t size : {1, 7, 4096, 9001}) {
    const Vector from = vectorOf(normals(size, 3)), back("partita::test::back", from.size());
    for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
      const Kokkos::View<Real*, MemSpace> memory("partita::test::memory", from.size());
      const TypedSpan packed(precision, memory.data(), size);
      CHECK(packed.bytes() == size * (precision == Precision::single ? std::int64_t{sizeof(Real)} : 2));
      convert(space, from, packed, Real(4));
      const Vector half = vectorOf({0.5});
      convert(space, packed, back, {Real(0.5), half.data()}); // a factor that the device knows
      const Matrix rounded = matrixOf(1, size, valuesOf(from));
      roundTo(space, precision, rounded);
      CHECK(valuesOf(back) == valuesOf(rounded)); // scaling by powers of two is exact
      const TypedSpan tail = packed.part(size / 2, size);
      CHECK(tail.size == size - size / 2);
      CHECK(static_cast<char*>(tail.data) - static_cast<char*>(packed.data) == packed.bytes() - tail.bytes());
    }
  }
}

TEST_CASE("Parts of typed matrices are copied and added in each precision", "[half]") {
  const Values values = normals(6 * 9, 4), more = normals(3 * 9, 5);
  for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
    const Vector memory("partita::test::memory", 6 * 9), target("partita::test::target", 3 * 9);
    const TypedMatrix whole(precision, memory.data(), 6, 9), sum(precision, target.data(), 3, 9);
    copyValues(space, matrixOf(6, 9, values), whole);
    const Matrix expected = matrixOf(6, 9, values), found = makeMatrix("partita::test::found", 3, 9);
    roundTo(space, precision, expected);
    copyValues(space, whole.rowsFrom(2, 3), sum); // the same precision
    copyValues(space, sum, found);
    CHECK(valuesOf(found) == valuesOf(rowsFrom(expected, 2, 3)));
    copyValues(space, matrixOf(3, 9, more), sum);
    const Vector quarter = vectorOf({0.25});
    addScaled(space, "partita::test::add", sum, whole.rowsFrom(1, 3), {Real(2), quarter.data()});
    copyValues(space, sum, found);
    const Matrix by_hand = matrixOf(3, 9, more);
    roundTo(space, precision, by_hand);
    addScaled(space, "partita::test::add", by_hand, rowsFrom(expected, 1, 3), Real(0.5));
    roundTo(space, precision, by_hand);
    CHECK(valuesOf(found) == valuesOf(by_hand));
    CHECK(whole.inRowsOf(6).rows == 9);
    CHECK_THROWS_AS(whole.columnsFrom(1, 4).values(), InternalError); // rows with gaps
    if (precision != Precision::single) CHECK_THROWS_AS(whole.real(), InternalError);
  }
}

} // namespace partita::test::core_typed_span
