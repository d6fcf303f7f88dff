#pragma once

#include "partita/nn/layer.hpp"

#include <memory>

#include "numerical.hpp"
#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/images.hpp"
#include "support/stored_values.hpp"

namespace partita::test {

constexpr DefaultSpace space;
constexpr std::int64_t rows = 3;

/// A layer with its buffers, and J = <c, y> for fixed c. Values are in the order of their shape.
class LayerProbe {
 public:
  /// Here parameters and their gradients are contiguous tensors without gaps.
  LayerProbe(Layer& layer, const LayerPlan& plan, const Values& c = {})
      : LayerProbe(layer, std::vector<LayerPlan>{plan}, c) {}
  /// A layer without parameters.
  explicit LayerProbe(Layer& layer) : LayerProbe(layer, std::vector<LayerPlan>(), {}) {}

  double value(const Values& parameters, const Values& in) const {
    assign(_parameters, asStored(_plans, parameters));
    assign(_in, asInMemory(in, inShape()));
    _layer.forward(space, _pass, _in, _out, _saved);
    return dot(_c, outputs());
  }

  /// dJ/din after a forward pass; the parameters' gradients are in `gradients()`.
  Values backward(bool accumulate = false) const {
    Pass pass = _pass;
    pass.accumulate = accumulate;
    const Matrix grad_in = makeMatrix("partita::test::grad_in", rows, _layer.inputs());
    const Matrix grad_out = matrixOf(rows, _layer.outputs(), asInMemory(_c, outShape()));
    _layer.backward(space, pass, _in, _out, _saved, grad_out, grad_in);
    return asInShape(valuesOf(grad_in), inShape());
  }
  /// See Pass::training.
  void setTraining(bool training) { _pass.training = training; }
  /// See Pass::transport.
  void setTransport(Real weight) { _pass.transport = weight; }
  void resetStatistics() const {
    std::vector<Real> values(_statistics.extent(0));
    _layer.initialiseStatistics(values.data());
    assign(_statistics, {values.begin(), values.end()});
  }
  Values statistics(std::int64_t count) const {
    Values values = valuesOf(_statistics);
    values.resize(static_cast<std::size_t>(count));
    return values;
  }
  Values gradients() const { return packedOf(_plans, valuesOf(_gradients)); }
  Values outputs() const { return asInShape(valuesOf(_out), outShape()); }

 private:
  Shape inShape() const { return _plans.empty() ? Shape{_layer.inputs()} : _plans.front().in; }
  Shape outShape() const { return _plans.empty() ? Shape{_layer.outputs()} : _plans.front().out; }

  LayerProbe(Layer& layer, std::vector<LayerPlan> plans, const Values& c)
      : _layer(layer), _plans(std::move(plans)),
        _parameters("partita::test::parameters", static_cast<std::size_t>(storedValuesOf(_plans))),
        _gradients("partita::test::gradients", _parameters.size()),
        _in(makeMatrix("partita::test::in", rows, layer.inputs())),
        _out(makeMatrix("partita::test::out", rows, layer.outputs())),
        _saved(makeMatrix("partita::test::saved", rows, layer.savedValues())),
        _c(c.empty() ? normals(rows * layer.outputs(), 99) : c) {
    std::int64_t work = 0;
    for (const LayerPlan& plan : _plans) work = plan.workValues(rows);
    _pass.work = Vector("partita::test::work", static_cast<std::size_t>(work));
    layer.bind({_parameters, _gradients});
    layer.bindStatistics(_statistics);
    resetStatistics();
  }

  Layer& _layer;
  std::vector<LayerPlan> _plans; ///< one, or none
  Pass _pass;
  Vector _parameters, _gradients;
  Vector _statistics{"partita::test::statistics", 1024}; ///< more than any layer here has
  Matrix _in, _out, _saved;
  Values _c;
};

inline void checkAgainstDifferences(const LayerProbe& probe, const Values& parameters, const Values& in) {
  const Values numerical_in =
      numericalGradient([&](const Values& x) { return probe.value(parameters, x); }, in);
  const Values numerical = numericalGradient([&](const Values& p) { return probe.value(p, in); }, parameters);
  probe.value(parameters, in);
  CHECK(relativeError(probe.backward(), numerical_in) < gradient_tolerance);
  if (!parameters.empty()) CHECK(relativeError(probe.gradients(), numerical) < gradient_tolerance);
}

/// Checks the gradients of all parameters and of the input of a plan's layer against differences.
inline void checkLayer(const LayerPlan& plan, const Values& parameters, const Values& in) {
  const auto layer = makeLayer(plan);
  checkAgainstDifferences(LayerProbe(*layer, plan), parameters, in);
}

} // namespace partita::test
