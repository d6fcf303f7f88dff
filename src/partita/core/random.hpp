#pragma once

#include <Kokkos_Macros.hpp>

#include <cmath>
#include <cstdint>

namespace partita {

/// Counter-based random numbers: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
/// easy as 1, 2, 3", SC 2011. A number depends only on (seed, stream, epoch, index): neither the order of
/// evaluation nor the number of ranks, threads or restarts changes it.

/// The purpose of a random number: no two uses share a stream.
enum class Stream : std::uint32_t {
  shuffle = 1,
  glyph_shape = 2,
  glyph_distortion = 3,
  glyph_noise = 4,
  initialisation = 5,
  labels = 6,
  stage_noise = 7,
  mixture = 8,
  split = 9,
  grammar = 10,
  dropout = 11,
  augmentation = 12,
  noise_images = 30,
  link_delay = 64, ///< of emulated links; no result depends on it
};

struct Random4 {
  std::uint32_t word[4];
};

/// The words of `Count` consecutive counters, with c0 counting, one counter after another. Host compilers
/// vectorise this, so that several counters cost little more than one.
template <int Count>
KOKKOS_INLINE_FUNCTION void philoxes(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2, std::uint32_t c3,
                                     std::uint64_t key, std::uint32_t* words) {
  std::uint32_t a[Count], b[Count], c[Count], d[Count];
  for (int i = 0; i < Count; ++i) {
    a[i] = c0 + static_cast<std::uint32_t>(i);
    b[i] = c1;
    c[i] = c2;
    d[i] = c3;
  }
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < Count; ++i) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * a[i], p1 = std::uint64_t{0xCD9E8D57U} * c[i];
      a[i] = static_cast<std::uint32_t>(p1 >> 32) ^ b[i] ^ k0;
      c[i] = static_cast<std::uint32_t>(p0 >> 32) ^ d[i] ^ k1;
      b[i] = static_cast<std::uint32_t>(p1);
      d[i] = static_cast<std::uint32_t>(p0);
    }
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  for (int i = 0; i < Count; ++i, words += 4) {
    words[0] = a[i];
    words[1] = b[i];
    words[2] = c[i];
    words[3] = d[i];
  }
}

/// Four random words of 32 bits for a 128-bit counter and a 64-bit key.
KOKKOS_INLINE_FUNCTION Random4 philox(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2, std::uint32_t c3,
                                      std::uint64_t key) {
  Random4 words;
  philoxes<1>(c0, c1, c2, c3, key, words.word);
  return words;
}

/// Uniform in [0, 1), 24 bits.
KOKKOS_INLINE_FUNCTION float toUniform(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 5.9604644775390625e-8F;
}

/// Mean zero, unit variance, nearly normal (sum of four uniform bytes, Irwin-Hall distribution): for uses
/// that need many numbers and no tails beyond 3.4 deviations.
KOKKOS_INLINE_FUNCTION float toRoughNormal(std::uint32_t word) {
  const std::uint32_t sum = (word & 0xFFU) + (word >> 8 & 0xFFU) + (word >> 16 & 0xFFU) + (word >> 24);
  return (static_cast<float>(static_cast<std::int32_t>(sum)) - 510.0F) * 6.7658975e-3F;
}

/// Uniform in [0, bound), by multiplication (bias below 2^-32 * bound).
KOKKOS_INLINE_FUNCTION std::uint32_t toBelow(std::uint32_t word, std::uint32_t bound) {
  return static_cast<std::uint32_t>((std::uint64_t{word} * bound) >> 32);
}

/// The numbers of one (seed, stream, epoch); `index` counts them. Cheap to copy into a kernel.
class RandomStream {
 public:
  KOKKOS_INLINE_FUNCTION RandomStream(std::uint64_t seed, Stream stream, std::uint32_t epoch = 0)
      : _seed(seed), _stream(static_cast<std::uint32_t>(stream)), _epoch(epoch) {}

  KOKKOS_INLINE_FUNCTION Random4 block(std::uint64_t index) const {
    return philox(static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), _stream, _epoch,
                  _seed);
  }
  /// The words of `Count` blocks starting at `index`; the lower 32 bits of the index must not overflow within
  /// them.
  template <int Count>
  KOKKOS_INLINE_FUNCTION void blocks(std::uint64_t index, std::uint32_t* words) const {
    philoxes<Count>(static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), _stream,
                    _epoch, _seed, words);
  }
  KOKKOS_INLINE_FUNCTION std::uint32_t bits(std::uint64_t index) const {
    return block(index >> 2).word[index & 3];
  }
  KOKKOS_INLINE_FUNCTION float uniform(std::uint64_t index) const { return toUniform(bits(index)); }

  KOKKOS_INLINE_FUNCTION std::uint32_t below(std::uint64_t index, std::uint32_t bound) const {
    return toBelow(bits(index), bound);
  }

  /// Standard normal, method of Box and Muller (1958).
  KOKKOS_INLINE_FUNCTION float normal(std::uint64_t index) const {
    const Random4 r = block(index);
    const double u = (static_cast<double>(r.word[0]) + 1.0) * 2.3283064365386963e-10; // (0, 1]
    const double v = static_cast<double>(r.word[1]) * 2.3283064365386963e-10;
    return static_cast<float>(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
  }

 private:
  std::uint64_t _seed;
  std::uint32_t _stream, _epoch;
};

} // namespace partita
