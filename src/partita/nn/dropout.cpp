#include "partita/nn/dropout.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/random.hpp"
#include "partita/core/region.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

namespace {

constexpr std::int64_t values_a_block = 8; // of four random words, half a word a value

/// Runs over blocks of neighbouring values of a row.
struct MaskBlocks {
  RandomStream random;
  const Real* from;
  Real* to;
  std::int64_t width, first_row;
  std::uint32_t dropped; // of 2^16
  Real scale;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t begin, std::int64_t end) const {
    constexpr int many = 32; // more than compilers unroll, which then find vectors in them
    std::int64_t block = begin;
    for (; block + many <= end; block += many) mask<many>(row, block);
    for (; block < end; ++block) mask<1>(row, block);
  }

  template <int Blocks>
  KOKKOS_INLINE_FUNCTION void mask(std::int64_t row, std::int64_t block) const {
    std::uint32_t words[4 * Blocks];
    random.blocks<Blocks>(
        static_cast<std::uint64_t>(first_row + row) << 32 | static_cast<std::uint64_t>(block), words);
    const std::int64_t begin = block * values_a_block, left = width - begin,
                       count = left < values_a_block * Blocks ? left : values_a_block * Blocks;
    const Real *values = from + row * width + begin, factor = scale;
    Real* masked = to + row * width + begin;
    const std::uint32_t threshold = dropped;
    PARTITA_INDEPENDENT
    for (std::int64_t i = 0; i < count / 2; ++i) {
      const Real even = factor * values[2 * i], odd = factor * values[2 * i + 1];
      masked[2 * i] = (words[i] & 0xFFFFU) < threshold ? Real(0) : even;
      masked[2 * i + 1] = words[i] >> 16 < threshold ? Real(0) : odd;
    }
    if (count % 2 == 1)
      masked[count - 1] = (words[count / 2] & 0xFFFFU) < threshold ? Real(0) : factor * values[count - 1];
  }
};

} // namespace

/// One step's numbers come from a key of their own: odd multiples of the step keep keys apart.
void Dropout::mask(const ExecSpace& space, const Pass& pass, const Matrix& from, const Matrix& to) const {
  const auto dropped = static_cast<std::uint32_t>(std::min(65535L, std::lround(_plan.spec.rate * 65536.0)));
  if (!pass.training || dropped == 0) {
    Kokkos::deep_copy(space, to, from);
    return;
  }
  const RandomStream random(pass.seed + pass.step * 0x9E3779B97F4A7C15U, Stream::dropout,
                            static_cast<std::uint32_t>(_plan.number));
  const auto width = static_cast<std::int64_t>(from.extent(1));
  forEachRun(space, "partita::Dropout::mask", static_cast<std::int64_t>(from.extent(0)),
             (width + values_a_block - 1) / values_a_block,
             MaskBlocks{random, from.data(), to.data(), width, pass.first_row, dropped,
                        static_cast<Real>(65536.0 / (65536.0 - dropped))});
}

void Dropout::forward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                      const Matrix&) {
  const Region region(space, "partita::Dropout::forward", Phase::elementwise);
  mask(space, pass, in, out);
}

void Dropout::backward(const ExecSpace& space, const Pass& pass, const Matrix&, const Matrix&, const Matrix&,
                       const Matrix& grad_out, const Matrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Region region(space, "partita::Dropout::backward", Phase::elementwise);
  mask(space, pass, grad_out, grad_in);
}

} // namespace partita
