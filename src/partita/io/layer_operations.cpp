#include "partita/io/layer_operations.hpp"

#include "partita/config/names.hpp"

namespace partita {

using Kind = Operation::Kind;

void LayerOperations::add(const LayerPlan& layer) {
  if (layer.group()) return addGroup(layer);
  const LayerStep step = layer.rules().step(layer);
  if (!step.operation.empty())
    addStep(layer, step);
  else if (!step.in.empty())
    reshape(step.in, layer.name());
  addActivation(layer);
}

void LayerOperations::addStep(const LayerPlan& layer, const LayerStep& step) {
  Operation operation;
  operation.name = layer.name();
  operation.type = layer.spec.type;
  operation.word = step.operation;
  operation.shape = step.in;
  operation.settings = step.settings;
  readTensors(parameters_kind, layer.parameterShapes(), operation);
  readTensors(statistics_kind, layer.statisticsShapes(), operation);
  for (const ParameterShape& shape : layer.parameterShapes()) _parameters += shape.size();
  if (!layer.rules().table(layer).empty()) _table = operation.tensors.front().name;
  if (layer.rules().tied(layer)) operation.tied = _table;
  reshape(step.in, layer.name() + (step.in.size() == 1 ? ".rows" : ".input"));
  _operations.push_back(std::move(operation));
  _shape = step.out;
}

/// Reads the tensors in the order in which they enter the hash.
void LayerOperations::readTensors(const char* kind, const std::vector<ParameterShape>& shapes,
                                  Operation& operation) {
  for (const ParameterShape& shape : shapes) {
    const TensorRecord& tensor = *_file.find(kind, operation.name, shape.name);
    std::vector<Real> values(tensor.size());
    _file.read(tensor, values.data());
    _hash.update(values.data(), values.size() * sizeof(Real));
    operation.tensors.push_back(
        {operation.name + "/" + shape.name, tensor.extents, {values.begin(), values.end()}});
  }
}

void LayerOperations::reshape(const Shape& shape, const std::string& name) {
  if (shape == _shape) return;
  Operation operation;
  operation.kind = Kind::reshape;
  operation.name = name;
  operation.shape = shape;
  _operations.push_back(operation);
  _shape = shape;
}

void LayerOperations::addRows(Operation operation, std::int64_t width, std::int64_t outputs) {
  reshape({width}, operation.name + ".rows");
  _operations.push_back(std::move(operation));
  if (outputs > 0) _shape = {outputs};
}

void LayerOperations::addActivation(const LayerPlan& layer) {
  if (layer.spec.activation == Activation::identity) return;
  Operation operation;
  operation.kind = Kind::activation;
  operation.name = layer.place + "." + nameOf(layer.spec.activation);
  operation.activation = layer.spec.activation;
  operation.slope = layer.spec.slope;
  _operations.push_back(operation);
}

void LayerOperations::mark(Kind kind, const std::string& name, double weight) {
  Operation operation;
  operation.kind = kind;
  operation.name = name;
  operation.weight = weight;
  _operations.push_back(operation);
}

void LayerOperations::skip(const LayerPlan& layer) {
  const std::vector<LayerPlan> alone{layer};
  for (const LayerPlan* leaf : leavesOf(alone)) {
    Operation unused;
    unused.name = leaf->name();
    readTensors(parameters_kind, leaf->parameterShapes(), unused);
    readTensors(statistics_kind, leaf->statisticsShapes(), unused);
  }
}

void LayerOperations::addExit(int number, double weight, std::int64_t classes,
                              const std::function<void()>& predict) {
  const std::string name = "exit" + std::to_string(number);
  const Shape before = _shape;
  mark(Kind::branch, name + ".branch");
  predict();
  reshape({classes}, name + ".rows");
  mark(Kind::exit, name, weight);
  _shape = before;
}

void LayerOperations::addSum(std::int64_t classes) {
  mark(Kind::sum, "sum");
  _shape = {classes};
}

void LayerOperations::addGroup(const LayerPlan& layer) {
  const bool residual = layer.rules().residual();
  reshape(layer.in, layer.name() + ".input");
  if (residual) mark(Kind::branch, layer.name() + ".branch");
  for (const LayerPlan& inside : layer.body) add(inside);
  reshape(layer.out, layer.name() + ".body");
  if (!residual) return;
  if (!layer.shortcut.empty()) {
    mark(Kind::swap, layer.name() + ".swap");
    _shape = layer.in;
    for (const LayerPlan& inside : layer.shortcut) add(inside);
    reshape(layer.out, layer.name() + ".shortcut");
  }
  mark(Kind::add, layer.name() + ".add");
  addActivation(layer);
}

} // namespace partita
