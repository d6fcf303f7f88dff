#include "layer_seconds.hpp"

#include "partita/core/clock.hpp"
#include "partita/core/loops.hpp"
#include "partita/core/random.hpp"
#include "partita/nn/stage.hpp"

#include <algorithm>
#include <memory>

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

/// A layer with memory of its own, and how long its passes took.
class TimedLayer {
 public:
  TimedLayer(const LayerPlan& layer, std::int64_t samples)
      : _samples(samples), _inputs(layer.inputs()), _outputs(layer.outputs()), _plan(planOf(layer)),
        _stage(_plan, Stage::initialValues(_plan, 1), samples), _tape(_stage.makeTape(samples)),
        _in(makeMatrix("partita::bench::in", samples, _inputs)), _has_tokens(layer.spec.type == "embedding") {
  }

  /// `values`: random ones, for at least as many columns as the layer has inputs. The input has just been
  /// written, as in training; the backward pass finds it again after those of the later layers.
  void forward(const ExecSpace& space, const Matrix& values) {
    if (!_has_tokens) Kokkos::deep_copy(space, _in, columnsOf(values, _inputs)); // tokens stay 0
    _forward.push_back(secondsOf(space, [&] { _stage.forward(space, {}, _in, _tape); }));
  }
  /// `values`: as above, and at least as many columns as the layer has outputs; `grad_in`: memory for the
  /// gradient of the input.
  void backward(const ExecSpace& space, const Matrix& values, const Matrix& grad_in) {
    const Matrix gradient = _stage.outputGradient(_samples);
    Kokkos::deep_copy(space, gradient, columnsOf(values, _outputs));
    _backward.push_back(secondsOf(
        space, [&] { _stage.backward(space, {}, _in, _tape, gradient, columnsOf(grad_in, _inputs)); }));
  }

  /// Without the first pass, which warms up.
  LayerSeconds seconds(Typical which) const {
    return {typical(which, {_forward.begin() + 1, _forward.end()}),
            typical(which, {_backward.begin() + 1, _backward.end()})};
  }

 private:
  static StagePlan planOf(const LayerPlan& layer) {
    StagePlan alone;
    alone.layers = {layer};
    return alone;
  }
  Matrix columnsOf(const Matrix& values, std::int64_t columns) const {
    return Matrix(values.data(), _samples, columns);
  }
  template <class Work>
  static double secondsOf(const ExecSpace& space, const Work& work) {
    fence(space, "partita::bench::layer");
    const auto start = Clock::now();
    work();
    fence(space, "partita::bench::layer");
    return secondsSince(start);
  }

  std::int64_t _samples, _inputs, _outputs;
  StagePlan _plan;
  Stage _stage;
  Tape _tape;
  Matrix _in;
  bool _has_tokens;
  std::vector<double> _forward, _backward;
};

} // namespace

LayerSeconds timeLayer(const ExecSpace& space, const LayerPlan& layer, std::int64_t samples, int repeats) {
  return timeInTurn(space, {layer}, samples, repeats, Typical::median).front();
}

std::vector<LayerSeconds> timeInTurn(const ExecSpace& space, const std::vector<LayerPlan>& layers,
                                     std::int64_t samples, int repeats, Typical which) {
  std::vector<std::unique_ptr<TimedLayer>> timed;
  std::int64_t widest = 0;
  for (const LayerPlan& layer : layers) {
    timed.push_back(std::make_unique<TimedLayer>(layer, samples));
    widest = std::max({widest, layer.inputs(), layer.outputs()});
  }
  const Matrix values = randomMatrix(space, samples, widest),
               grad_in = makeMatrix("partita::bench::grad_in", samples, widest);
  for (int i = 0; i <= repeats; ++i) {
    for (const auto& layer : timed) layer->forward(space, values);
    for (auto layer = timed.rbegin(); layer != timed.rend(); ++layer)
      (*layer)->backward(space, values, grad_in);
  }
  std::vector<LayerSeconds> seconds;
  seconds.reserve(timed.size());
  for (const auto& layer : timed) seconds.push_back(layer->seconds(which));
  return seconds;
}

} // namespace partita
