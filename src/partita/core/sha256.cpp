#include "partita/core/sha256.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace partita {

namespace {

using Words64 = std::array<std::uint32_t, 64>;

std::uint32_t rotate(std::uint32_t x, int n) {
  return (x >> n) | (x << (32 - n));
}

// The standard defines its constants as the first 32 bits of the fractional parts of roots of the first
// primes; long double is precise enough to compute them, which is shorter than a table and as easy to check.
std::array<int, 64> firstPrimes() {
  std::array<int, 64> primes{};
  std::size_t found = 0;
  for (int n = 2; found < primes.size(); ++n) {
    bool prime = true;
    for (std::size_t i = 0; i < found && prime; ++i) prime = n % primes[i] != 0;
    if (prime) primes[found++] = n;
  }
  return primes;
}

std::uint32_t fraction(long double x) {
  return static_cast<std::uint32_t>((x - std::floor(x)) * 4294967296.0L);
}

Words64 roundConstants() {
  Words64 words{};
  const auto primes = firstPrimes();
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = fraction(std::cbrt(static_cast<long double>(primes[i])));
  return words;
}

} // namespace

Sha256::Sha256() : _state{} {
  const auto primes = firstPrimes();
  for (std::size_t i = 0; i < _state.size(); ++i)
    _state[i] = fraction(std::sqrt(static_cast<long double>(primes[i])));
}

void Sha256::update(const void* data, std::size_t bytes) {
  const auto* next = static_cast<const unsigned char*>(data);
  while (bytes > 0) {
    const std::size_t used = _bytes % 64, take = std::min(bytes, 64 - used);
    std::memcpy(_block.data() + used, next, take);
    _bytes += take;
    next += take;
    bytes -= take;
    if (_bytes % 64 == 0) compress(_block.data());
  }
}

void Sha256::compress(const unsigned char* block) {
  static const Words64 constants = roundConstants();
  Words64 w{};
  for (std::size_t i = 0; i < 16; ++i) {
    w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
           std::uint32_t{block[4 * i + 2]} << 8 | block[4 * i + 3];
  }
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const std::uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = _state;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t t1 =
        h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + w[i];
    const std::uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<std::uint32_t, 8> sums{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) _state[i] += sums[i];
}

std::string Sha256::hex() const {
  Sha256 last = *this;
  const std::uint64_t bits = _bytes * 8;
  const unsigned char one = 0x80, zero = 0;
  last.update(&one, 1);
  while (last._bytes % 64 != 56) last.update(&zero, 1);
  std::array<unsigned char, 8> length{};
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(bits >> (56 - 8 * i));
  last.update(length.data(), length.size());
  std::string text;
  for (const std::uint32_t word : last._state) {
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15U];
  }
  return text;
}

} // namespace partita
