#include "layer_seconds.hpp"

#include "partita/core/clock.hpp"
#include "partita/core/loops.hpp"
#include "partita/core/random.hpp"
#include "partita/nn/stage.hpp"

#include "bench_model.hpp"

namespace partita {

namespace {

struct FillRandomly {
  Real* values;
  RandomStream random;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { values[i] = toRoughNormal(random.bits(i)); }
};

Matrix randomMatrix(const ExecSpace& space, std::int64_t rows, std::int64_t columns) {
  const Matrix matrix = makeMatrix("partita::bench::values", rows, columns);
  forEachValue(space, "partita::bench::fill", rows * columns,
               FillRandomly{matrix.data(), RandomStream(1, Stream::noise_images)});
  return matrix;
}

} // namespace

LayerSeconds timeLayer(const ExecSpace& space, const LayerPlan& layer, std::int64_t samples, int repeats) {
  StagePlan alone;
  alone.layers = {layer};
  Stage stage(alone, Stage::initialValues(alone, 1), samples);
  Tape tape = stage.makeTape(samples);
  Matrix in = randomMatrix(space, samples, layer.inputs());
  if (layer.spec.type == "embedding") in = makeMatrix("partita::bench::tokens", samples, layer.inputs());
  const Matrix out = randomMatrix(space, samples, layer.outputs());
  const Matrix grad_in = makeMatrix("partita::bench::grad_in", samples, layer.inputs());
  std::vector<double> forward, backward;
  for (int i = 0; i <= repeats; ++i) {
    Kokkos::deep_copy(space, stage.outputGradient(samples), out);
    fence(space, "partita::bench::layer");
    const auto start = Clock::now();
    stage.forward(space, {}, in, tape);
    fence(space, "partita::bench::layer");
    const double first = secondsSince(start);
    stage.backward(space, {}, in, tape, stage.outputGradient(samples), grad_in);
    fence(space, "partita::bench::layer");
    if (i == 0) continue; // warms up
    forward.push_back(first);
    backward.push_back(secondsSince(start) - first);
  }
  return {median(forward), median(backward)};
}

} // namespace partita
