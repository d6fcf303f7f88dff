#include "partita/plan/search/network_graph.hpp"

#include "partita/plan/cost/layer_cost.hpp"

namespace partita {

namespace {

OperatorKind kindOf(Activation activation) {
  switch (activation) {
  case Activation::tanh:
    return OperatorKind::tanh;
  case Activation::gelu:
    return OperatorKind::gelu;
  case Activation::sigmoid:
  case Activation::silu:
    return OperatorKind::exponential;
  case Activation::identity:
  case Activation::relu:
  case Activation::leaky_relu:
    break;
  }
  return OperatorKind::relu;
}

/// Appends the operators of one layer; -1 stands for the input of the layer.
class NetworkBuilder {
 public:
  /// `table`: values of the embedding's table.
  NetworkBuilder(std::int64_t microbatch, double table) : _samples(asReal(microbatch)), _table(table) {}

  GraphLayer layer(const LayerPlan& plan) {
    _layer = {};
    _layer.name = plan.name();
    _layer.parameters = asReal(plan.parameters());
    _layer.output = _samples * asReal(plan.outputs());
    append(plan, -1);
    return std::move(_layer);
  }

 private:
  int append(const LayerPlan& plan, int input) {
    int output = plan.group() ? group(plan, input) : leaf(plan, input);
    if (plan.spec.activation != Activation::identity)
      output = simple(plan, kindOf(plan.spec.activation), output);
    return output;
  }

  int group(const LayerPlan& plan, int input) {
    int body = input, shortcut = input;
    for (const LayerPlan& inside : plan.body) body = append(inside, body);
    for (const LayerPlan& inside : plan.shortcut) shortcut = append(inside, shortcut);
    if (!plan.rules().residual()) return body;
    GraphOperator sum =
        GraphOperator::vector(plan.name(), OperatorKind::add, _samples * asReal(plan.outputs()));
    sum.second = sum.elements;
    return _layer.add(std::move(sum), {body, shortcut});
  }

  int leaf(const LayerPlan& plan, int input) {
    if (plan.rules().tied(plan)) _layer.parameters += _table; // its stage may not have the embedding
    switch (plan.rules().work()) {
    case LayerWork::product:
    case LayerWork::convolution:
      return matrix(plan, input);
    case LayerWork::pooling:
      return simple(plan, OperatorKind::add, input, asReal(plan.rules().windows(plan)->taps()));
    case LayerWork::normalisation:
      return simple(plan, OperatorKind::norm, input);
    case LayerWork::attention:
      return attention(plan, input);
    case LayerWork::other:
      return simple(plan, OperatorKind::move, input);
    case LayerWork::elementwise:
      break;
    }
    // An activation is a separate operator, and a change of shape is none: what remains is dropout.
    const bool drops =
        plan.spec.activation == Activation::identity && plan.rules().outputValues() == OutputValues::computed;
    return drops ? simple(plan, OperatorKind::dropout, input) : input;
  }

  /// Each output value is a sum of products: as many as the layer has multiply-adds per output.
  int matrix(const LayerPlan& plan, int input) {
    const bool sequence = isSequence(plan.out);
    const double columns = asReal(sequence ? plan.out.back() : plan.out.front());
    const double rows = asReal(plan.outputs()) / columns;
    return product(plan.name(), 1.0, rows * _samples, plan.forwardFlops() / 2.0 / asReal(plan.outputs()),
                   columns, input);
  }

  int attention(const LayerPlan& plan, int input) {
    const double length = asReal(plan.in[0]), width = asReal(plan.in[1]),
                 heads = asReal(plan.spec.attention.heads);
    const int projected = product(plan.name() + ".qkv", 1.0, _samples * length, width, 3.0 * width, input);
    int weights =
        product(plan.name() + ".scores", _samples * heads, length, width / heads, length, projected);
    GraphOperator softmax = GraphOperator::vector(plan.name() + ".softmax", OperatorKind::softmax,
                                                  _samples * heads * length * length);
    softmax.row = length;
    weights = _layer.add(std::move(softmax), {weights});
    const int mixed = _layer.add(
        GraphOperator::product(plan.name() + ".mix", _samples * heads, length, length, width / heads),
        {weights, projected});
    return product(plan.name() + ".out", 1.0, _samples * length, width, width, mixed);
  }

  int product(const std::string& name, double batch, double rows, double inner, double columns, int input) {
    return _layer.add(GraphOperator::product(name, batch, rows, inner, columns), {input});
  }

  int simple(const LayerPlan& plan, OperatorKind kind, int input, double taps = 1.0) {
    GraphOperator op = GraphOperator::vector(plan.name(), kind, _samples * asReal(plan.outputs()));
    op.taps = taps;
    return _layer.add(std::move(op), {input});
  }

  double _samples, _table;
  GraphLayer _layer;
};

/// Values of the table that a later layer may share; 0 if there is none.
double tableValues(const std::vector<LayerPlan>& layers) {
  const LayerPlan& first = *leavesOf(layers).front();
  const Shape table = first.rules().table(first);
  return table.empty() ? 0.0 : asReal(valuesOf(table));
}

} // namespace

ModelChain chainOf(const std::vector<LayerPlan>& layers, std::int64_t microbatch) {
  NetworkBuilder builder(microbatch, tableValues(layers));
  ModelChain chain;
  for (const LayerPlan& plan : layers) {
    chain.chain.push_back(static_cast<int>(chain.layers.size()));
    chain.layers.push_back(builder.layer(plan));
  }
  return chain;
}

} // namespace partita
