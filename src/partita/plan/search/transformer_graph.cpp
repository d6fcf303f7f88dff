#include "partita/plan/cost/layer_cost.hpp"
#include "partita/plan/search/transformer.hpp"

#include <cmath>

namespace partita {

namespace {

/// Builds the layers of one model, with the sizes on one of the devices that share them.
class TransformerBuilder {
 public:
  TransformerBuilder(const Transformer& model, int tensor_degree, std::int64_t microbatch)
      : _model(model), _parts(tensor_degree), _samples(asReal(microbatch)), _width(asReal(model.width)),
        _heads(asReal(model.heads) / tensor_degree), _head(asReal(model.width) / asReal(model.heads)),
        _inner(asReal(model.feed_forward) / tensor_degree), _length(asReal(model.sequence)),
        _words(std::ceil(asReal(model.vocabulary) / tensor_degree)), _tokens(_samples * _length) {}

  GraphLayer embedding() {
    begin("embedding", _words * _width);
    int value = simple("lookup", OperatorKind::move, _tokens * _width, {});
    value = allReduce(value, false);
    if (!_model.rotary) {
      _layer.parameters += _length * _width;
      value = simple("positions", OperatorKind::add, _tokens * _width, {value}, _length * _width);
    }
    if (_model.segments) {
      _layer.parameters += 2.0 * _width;
      value =
          norm("norm", simple("segments", OperatorKind::add, _tokens * _width, {value}, _tokens * _width));
    }
    if (_model.rotary)
      rotaryTables();
    else
      simple("dropout", OperatorKind::dropout, _tokens * _width, {value});
    return std::move(_layer);
  }

  GraphLayer block() {
    begin("block", 0.0);
    int value = -1; // the input of the block
    value = attention(norm("norm1", value));
    value = simple("sum1", OperatorKind::add, _tokens * _width, {value}, _tokens * _width);
    const int middle = value;
    value = feedForward(norm("norm2", value));
    simple("sum2", OperatorKind::add, _tokens * _width, {middle, value}, _tokens * _width);
    return std::move(_layer);
  }

  GraphLayer head() {
    begin("head", _words * _width);
    const int input = copyToAll(norm("norm", -1));
    product("logits", 1.0, _tokens, _width, _words, {input});
    _layer.output = 0.0;
    return std::move(_layer);
  }

 private:
  void begin(const std::string& name, double parameters) {
    _layer = {};
    _layer.name = name;
    _layer.parameters = parameters;
    _layer.output = _tokens * _width;
    _layer.tensor_parallel = _parts > 1;
  }

  int simple(const std::string& name, OperatorKind kind, double elements, const std::vector<int>& inputs,
             double second = 0.0, double row = 1.0) {
    GraphOperator op = GraphOperator::vector(name, kind, elements);
    op.second = second;
    op.row = row;
    return _layer.add(std::move(op), inputs);
  }

  int product(const std::string& name, double batch, double rows, double inner, double columns,
              const std::vector<int>& inputs) {
    return _layer.add(GraphOperator::product(name, batch, rows, inner, columns), inputs);
  }

  /// A product with weights, and a bias if the model has them.
  int linear(const std::string& name, double inner, double columns, int input, bool bias_once = false) {
    _layer.parameters += inner * columns;
    if (_model.biases) _layer.parameters += bias_once ? std::ceil(columns / _parts) : columns;
    return product(name, 1.0, _tokens, inner, columns, {input});
  }

  /// The sum over the devices that share the layer, in the forward or the backward pass.
  int allReduce(int input, bool backward) {
    if (_parts == 1) return input;
    GraphOperator op;
    op.name = backward ? "gradient-sum" : "sum-over-devices";
    op.kind = OperatorKind::all_reduce;
    op.values = _tokens * _width;
    op.backward_only = backward;
    return _layer.add(std::move(op), {input});
  }
  int copyToAll(int input) { return allReduce(input, true); }

  /// RMS norms consist of single steps, as in the published graph of Llama 2.
  int norm(const std::string& name, int input) {
    const double size = _tokens * _width;
    if (_model.norm == TransformerNorm::layer) {
      _layer.parameters += 2.0 * _width;
      return simple(name, OperatorKind::norm, size, {input});
    }
    _layer.parameters += _width;
    const int squares = simple(name + ".pow", OperatorKind::power, size, {input});
    const int mean = simple(name + ".mean", OperatorKind::mean, _tokens, {squares}, 0.0, _width);
    const int shifted = simple(name + ".add", OperatorKind::add, _tokens, {mean});
    const int factor = simple(name + ".rsqrt", OperatorKind::power, _tokens, {shifted});
    const int scaled = simple(name + ".mul", OperatorKind::multiply, size, {input, factor}, _tokens);
    return simple(name + ".weight", OperatorKind::multiply, size, {scaled}, _width);
  }

  /// x cos + (x with its halves swapped, one of them negative) sin.
  int rotary(const std::string& name, int input) {
    const double size = _tokens * _heads * _head, table = _length * _head;
    const int straight = simple(name + ".cos", OperatorKind::multiply, size, {input}, table);
    const int negative = simple(name + ".neg", OperatorKind::add, size / 2.0, {input});
    const int turned = simple(name + ".sin", OperatorKind::multiply, size, {input, negative}, table);
    return simple(name + ".add", OperatorKind::add, size, {straight, turned}, size);
  }

  /// All samples and heads use the same ones.
  void rotaryTables() {
    const double table = _length * _head;
    const int angles = product("angles", 1.0, _head / 2.0, 1.0, _length, {});
    for (const char* const name : {"cos", "sin"}) {
      const int values = simple(name, OperatorKind::sine, table, {angles});
      simple(std::string(name) + ".scale", OperatorKind::multiply, table, {values});
    }
  }

  int attention(int input) {
    const double scores = _samples * _heads * _length * _length;
    input = copyToAll(input);
    int query = linear("query", _width, _heads * _head, input);
    int key = linear("key", _width, _heads * _head, input);
    const int values = linear("value", _width, _heads * _head, input);
    if (_model.rotary) {
      query = rotary("query", query);
      key = rotary("key", key);
    }
    int weights = product("scores", _samples * _heads, _length, _head, _length, {query, key});
    weights = simple("scale", OperatorKind::divide, scores, {weights});
    weights = simple("mask", OperatorKind::add, scores, {weights}, _samples * _length * _length);
    weights = simple("softmax", OperatorKind::softmax, scores, {weights}, 0.0, _length);
    weights = simple("attention-dropout", OperatorKind::dropout, scores, {weights});
    const int mixed = product("mix", _samples * _heads, _length, _length, _head, {weights, values});
    const int output = allReduce(linear("output", _heads * _head, _width, mixed, true), false);
    return _model.rotary ? output : simple("dropout1", OperatorKind::dropout, _tokens * _width, {output});
  }

  int feedForward(int input) {
    const double size = _tokens * _inner;
    input = copyToAll(input);
    int value = linear("up", _width, _inner, input);
    const OperatorKind kind = _model.activation == TransformerActivation::relu   ? OperatorKind::relu
                              : _model.activation == TransformerActivation::gelu ? OperatorKind::gelu
                                                                                 : OperatorKind::exponential;
    value = simple("activation", kind, size, {value});
    if (_model.gated) {
      const int gate = linear("gate", _width, _inner, input);
      value = simple("gated", OperatorKind::multiply, size, {value, gate}, size);
    }
    const int output = allReduce(linear("down", _inner, _width, value, true), false);
    return _model.rotary ? output : simple("dropout2", OperatorKind::dropout, _tokens * _width, {output});
  }

  const Transformer& _model;
  int _parts;
  double _samples, _width, _heads, _head, _inner, _length, _words, _tokens;
  GraphLayer _layer;
};

} // namespace

ModelChain chainOf(const Transformer& model, int tensor_degree, std::int64_t microbatch) {
  TransformerBuilder builder(model, tensor_degree, microbatch);
  ModelChain chain;
  chain.tensor_degree = tensor_degree;
  chain.layers = {builder.embedding(), builder.block(), builder.head()};
  chain.chain.assign(static_cast<std::size_t>(model.layers), 1);
  chain.chain.insert(chain.chain.begin(), 0);
  chain.chain.push_back(2);
  return chain;
}

} // namespace partita
