#include "partita/strategy/sil/synthetic_source.hpp"

#include "partita/core/image_layout.hpp"
#include "partita/core/loops.hpp"
#include "partita/core/random.hpp"
#include "partita/core/region.hpp"
#include "partita/kernels/products.hpp"
#include "partita/nn/softmax.hpp"

namespace partita {

namespace {

/// Four values of S[y] + scale * eps, in the order of the cut's shape.
struct NoisyLabels {
  RandomStream random;
  ImageLayout layout;
  const Real* labels;
  const std::int32_t* classes;
  Real* out;
  std::int64_t width, blocks, first_row;
  Real scale;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t block) const {
    const Random4 r = random.block(static_cast<std::uint64_t>((first_row + row) * blocks + block));
    const Real* label = labels + classes[row] * width;
    for (std::int64_t j = 4 * block; j < 4 * block + 4 && j < width; ++j) {
      const std::int64_t at = layout.channels == 1 ? j : inMemory(layout, j);
      out[row * width + at] = label[at] + scale * static_cast<Real>(toRoughNormal(r.word[j & 3]));
    }
  }
};

/// z_c = 8 u1 n_c + 12 u2 [c = y], four classes at a time.
struct MixtureLogits {
  RandomStream random;
  const std::int32_t* classes;
  Real* out;
  std::int64_t width, blocks, first_row; // a row uses `blocks` blocks of numbers, then one for u1 and u2

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t block) const {
    const auto base = static_cast<std::uint64_t>((first_row + row) * (blocks + 1));
    const Random4 r = random.block(base + static_cast<std::uint64_t>(block));
    const Random4 u = random.block(base + static_cast<std::uint64_t>(blocks));
    const Real spread = 8 * static_cast<Real>(toUniform(u.word[0])),
               lift = 12 * static_cast<Real>(toUniform(u.word[1]));
    for (std::int64_t c = 4 * block; c < 4 * block + 4 && c < width; ++c) {
      out[row * width + c] =
          spread * static_cast<Real>(toRoughNormal(r.word[c & 3])) + (c == classes[row] ? lift : Real(0));
    }
  }
};

} // namespace

SyntheticSource::SyntheticSource(const SilLabels& labels, std::shared_ptr<BatchReader> classes, bool mixture,
                                 double noise, std::uint64_t seed, int stage, Place place,
                                 std::int64_t capacity)
    : _labels(labels), _classes(std::move(classes)), _mixture(mixture), _noise(noise), _seed(seed),
      _stage(stage), _place(place),
      _in(makeMatrix("partita::SyntheticSource::in", capacity * place.positions, labels.width())),
      _posterior(makeMatrix("partita::SyntheticSource::posterior", mixture ? capacity * place.positions : 0,
                            labels.classes())) {}

Matrix SyntheticSource::asSamples(const Matrix& in) const {
  const auto positions = static_cast<std::size_t>(_place.positions);
  return Matrix(in.data(), in.extent(0) / positions, in.extent(1) * positions);
}

StageBatch SyntheticSource::operator()(const ExecSpace& space) {
  const Labels classes = _classes->next(space).labels;
  const StageBatch batch = _mixture ? mixed(space, classes) : noisy(space, classes);
  ++_place.step;
  return batch;
}

StageBatch SyntheticSource::noisy(const ExecSpace& space, const Labels& classes) {
  const Region region(space, "partita::SyntheticSource::noisy", Phase::data);
  const auto rows = static_cast<std::int64_t>(classes.extent(0));
  const std::int64_t width = _labels.width(), blocks = (width + 3) / 4;
  const RandomStream random(_seed, Stream::stage_noise, static_cast<std::uint32_t>(_stage));
  const Matrix in = topRows(_in, rows);
  forEachElement(space, "partita::SyntheticSource::noisy_kernel", rows, blocks,
                 NoisyLabels{random, _labels.layout, _labels.rows.data(), classes.data(), in.data(), width,
                             blocks, firstLabel(), static_cast<Real>(_noise * _labels.deviation)});
  return {asSamples(in), {classes, Matrix()}};
}

StageBatch SyntheticSource::mixed(const ExecSpace& space, const Labels& classes) {
  const auto rows = static_cast<std::int64_t>(classes.extent(0));
  const std::int64_t width = _labels.classes(), blocks = (width + 3) / 4;
  const RandomStream random(_seed, Stream::mixture, static_cast<std::uint32_t>(_stage));
  const Matrix in = topRows(_in, rows), posterior = topRows(_posterior, rows);
  {
    const Region region(space, "partita::SyntheticSource::mixed", Phase::data);
    forEachElement(space, "partita::SyntheticSource::mixed_kernel", rows, blocks,
                   MixtureLogits{random, classes.data(), posterior.data(), width, blocks, firstLabel()});
    softmax(space, posterior, posterior);
  }
  gemm(space, Op::none, Op::none, Real(1), posterior, _labels.rows, Real(0), in);
  return {asSamples(in), {classes, posterior}};
}

} // namespace partita
